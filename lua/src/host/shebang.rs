//! The first line of a library or script: `#!lua name=… flags=…`.

/// What the first line of a script says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shebang {
    /// `None` for a script without such a line, which says nothing about itself.
    pub(crate) flags: Option<Vec<&'static str>>,
    /// Length of the line, without its end: the code keeps its line numbers.
    pub(crate) length: usize,
}

/// What names may consist of, as errors put it.
pub(crate) const NAME_RULE: &str = "names can only contain letters, numbers, or underscores(_) \
                                    and must be at least one character long";

const SCRIPT_FLAGS: [&str; 5] =
    ["no-writes", "allow-oom", "allow-stale", "no-cluster", "allow-cross-slot-keys"];

/// Reads the name of a library and the length of its first line.
pub(crate) fn of_library(code: &[u8]) -> Result<(String, usize), String> {
    if !code.starts_with(b"#!") {
        return Err("ERR Missing library metadata".to_owned());
    }
    let invalid = || "ERR Invalid library metadata".to_owned();
    let length = code.iter().position(|byte| *byte == b'\n').ok_or_else(invalid)?;
    let words = words(&code[..length]).ok_or_else(invalid)?;
    let (engine, options) = words.split_first().ok_or_else(invalid)?;
    let mut name: Option<Vec<u8>> = None;
    for option in options {
        let Some(value) = strip_prefix_ignoring_case(option, b"name=") else {
            let option = String::from_utf8_lossy(option);
            return Err(format!("ERR Invalid metadata value given: {option}"));
        };
        if name.replace(value.to_vec()).is_some() {
            let text = "ERR Invalid metadata value, name argument was given multiple times";
            return Err(text.to_owned());
        }
    }
    let name = name.ok_or_else(|| "ERR Library name was not given".to_owned())?;
    if !is_valid_name(&name) {
        return Err(format!("ERR Library {NAME_RULE}"));
    }
    let engine = String::from_utf8_lossy(engine.get(2..).unwrap_or_default()).into_owned();
    if !engine.eq_ignore_ascii_case("lua") {
        return Err(format!("ERR Engine '{engine}' not found"));
    }
    Ok((String::from_utf8_lossy(&name).into_owned(), length))
}

/// Reads the flags of a script, if its first line states any.
pub(crate) fn of_script(code: &[u8]) -> Result<Shebang, String> {
    if !code.starts_with(b"#!") {
        return Ok(Shebang { flags: None, length: 0 });
    }
    let invalid = || "ERR Invalid script shebang".to_owned();
    let length = code.iter().position(|byte| *byte == b'\n').ok_or_else(invalid)?;
    let words = words(&code[..length]).ok_or_else(invalid)?;
    let (engine, options) = words.split_first().ok_or_else(invalid)?;
    let engine = String::from_utf8_lossy(engine.get(2..).unwrap_or_default()).into_owned();
    if !engine.eq_ignore_ascii_case("lua") {
        return Err(format!("ERR Could not find scripting engine '{engine}'"));
    }
    let mut flags = Vec::new();
    for option in options {
        let Some(list) = strip_prefix_ignoring_case(option, b"flags=") else {
            let option = String::from_utf8_lossy(option);
            return Err(format!("ERR Unknown lua shebang option: {option}"));
        };
        for flag in list.split(|byte| *byte == b',') {
            let known = SCRIPT_FLAGS.into_iter().find(|known| known.as_bytes() == flag);
            flags.push(known.ok_or_else(|| {
                let flag = String::from_utf8_lossy(flag);
                format!("ERR Unexpected flag in script shebang: {flag}")
            })?);
        }
    }
    Ok(Shebang { flags: Some(flags), length })
}

/// Whether a library or a function may bear this name.
pub(crate) fn is_valid_name(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
}

fn strip_prefix_ignoring_case<'a>(text: &'a [u8], prefix: &[u8]) -> Option<&'a [u8]> {
    let (front, rest) = text.split_at_checked(prefix.len())?;
    front.eq_ignore_ascii_case(prefix).then_some(rest)
}

/// Splits a line into words; quotes keep blanks together. `None` if a quote stays open.
fn words(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut words = Vec::new();
    let mut word: Option<Vec<u8>> = None;
    let mut bytes = line.iter();
    while let Some(&byte) = bytes.next() {
        match byte {
            b'"' | b'\'' => {
                let quoted = word.get_or_insert_default();
                loop {
                    match *bytes.next()? {
                        end if end == byte => break,
                        inner => quoted.push(inner),
                    }
                }
            }
            blank if blank.is_ascii_whitespace() => words.extend(word.take()),
            plain => word.get_or_insert_default().push(plain),
        }
    }
    words.extend(word);
    Some(words)
}

#[cfg(test)]
mod tests {
    use super::{of_library, of_script};

    #[test]
    fn the_first_line_names_the_library() {
        let name = |line: &str| of_library(format!("{line}\ncode").as_bytes());
        assert_eq!(name("#!lua name=lib"), Ok(("lib".to_owned(), 14)));
        assert_eq!(name("#!LUA   name=\"lib\"  "), Ok(("lib".to_owned(), 20)));
        assert_eq!(name("#!lua name=lib\r"), Ok(("lib".to_owned(), 15)));
        let refusals = [
            ("code", "ERR Missing library metadata"),
            ("#!lua", "ERR Library name was not given"),
            ("#!lua \"name=lib", "ERR Invalid library metadata"),
            (
                "#!lua name=a name=b",
                "ERR Invalid metadata value, name argument was given multiple times",
            ),
            ("#!lua name=a foo=1", "ERR Invalid metadata value given: foo=1"),
            ("#! name=a", "ERR Engine '' not found"),
        ];
        for (line, text) in refusals {
            assert_eq!(name(line), Err(text.to_owned()));
        }
    }

    #[test]
    fn a_script_states_its_flags_or_nothing() {
        assert_eq!(of_script(b"return 1").expect("plain").flags, None);
        assert_eq!(of_script(b"#!lua\nreturn 1").expect("empty").flags, Some(vec![]));
        let flagged = of_script(b"#!lua flags=no-writes\nreturn 1").expect("flagged");
        assert_eq!(flagged.flags, Some(vec!["no-writes"]));
        assert_eq!(
            of_script(b"#!lua flags=nope\nreturn 1"),
            Err("ERR Unexpected flag in script shebang: nope".to_owned())
        );
    }
}
