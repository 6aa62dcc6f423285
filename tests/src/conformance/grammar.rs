//! A small grammar for commands, so that the generator reads like the servers' manuals.
//!
//! A template is words with blanks between. `<name>` stands for a word of that kind; `[a | b]`
//! for nothing or one of the choices; `(a | b)` for one of the choices; `{a}` for one to three
//! times what is inside.

use selvedge_sim::search::Draws;

/// Spells one command out of a template. `word` makes a word of the kind that is asked for.
pub(super) fn expand(
    template: &str,
    draws: &mut Draws,
    word: &mut dyn FnMut(&str, &mut Draws) -> Vec<u8>,
) -> Vec<Vec<u8>> {
    let spaced = "[](){}|"
        .chars()
        .fold(template.to_owned(), |text, sign| text.replace(sign, &format!(" {sign} ")));
    let tokens: Vec<&str> = spaced.split_whitespace().collect();
    let mut words = Vec::new();
    write(&tokens, draws, word, &mut words);
    words
}

fn write(
    mut tokens: &[&str],
    draws: &mut Draws,
    word: &mut dyn FnMut(&str, &mut Draws) -> Vec<u8>,
    words: &mut Vec<Vec<u8>>,
) {
    while let [token, rest @ ..] = tokens {
        tokens = rest;
        if !matches!(*token, "[" | "(" | "{") {
            let kind = token.strip_prefix('<').and_then(|token| token.strip_suffix('>'));
            words.push(kind.map_or_else(|| token.as_bytes().to_vec(), |kind| word(kind, draws)));
            continue;
        }
        let (choices, behind) = group(rest);
        tokens = behind;
        let times = match *token {
            "[" => draws.index(2),
            "{" => 1 + draws.index(3),
            _ => 1,
        };
        for _ in 0..times {
            let choice = &choices[draws.index(choices.len())];
            write(choice, draws, word, words);
        }
    }
}

/// The choices of a group whose bracket is open, and what follows it.
fn group<'t, 'a>(tokens: &'t [&'a str]) -> (Vec<&'t [&'a str]>, &'t [&'a str]) {
    let (mut depth, mut start, mut choices) = (0, 0, Vec::new());
    for (place, token) in tokens.iter().enumerate() {
        match *token {
            "[" | "(" | "{" => depth += 1,
            "|" if depth == 0 => {
                choices.push(&tokens[start..place]);
                start = place + 1;
            }
            "]" | ")" | "}" if depth == 0 => {
                choices.push(&tokens[start..place]);
                return (choices, &tokens[place + 1..]);
            }
            "]" | ")" | "}" => depth -= 1,
            _ => {}
        }
    }
    panic!("a group never closed: {tokens:?}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_through_a_template_is_taken_and_no_other() {
        let mut draws = Draws::seeded(3, 0);
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..200 {
            let words = expand("A <x> [B | C [D]] (E | F)", &mut draws, &mut |kind, _| {
                kind.to_uppercase().into_bytes()
            });
            let words: Vec<_> =
                words.into_iter().map(|word| String::from_utf8(word).expect("letters")).collect();
            seen.insert(words.join(" "));
        }
        let expected = [
            "A X B E",
            "A X B F",
            "A X C D E",
            "A X C D F",
            "A X C E",
            "A X C F",
            "A X E",
            "A X F",
        ];
        assert!(seen.iter().eq(expected.iter()), "{seen:?}");
    }

    #[test]
    fn a_repeated_group_comes_one_to_three_times() {
        let mut draws = Draws::seeded(3, 0);
        let lengths: std::collections::BTreeSet<usize> = (0..50)
            .map(|_| expand("A {<b> <c>}", &mut draws, &mut |_, _| Vec::new()).len())
            .collect();
        assert!(lengths.into_iter().eq([3, 5, 7]));
    }
}
