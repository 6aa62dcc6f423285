//! The ledger as text, and the comparison of two.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::Line;

/// By how many percent the instructions of a line may grow: a change of a line or two elsewhere
/// must not fail the test of every function.
const INSTRUCTIONS_SLACK_PERCENT: u64 = 2;

const HEAD: [&str; 4] = ["function", "commands", "instructions", "by kind"];

/// What a line of a ledger file says: hundredths of commands, and instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Inner commands, in hundredths.
    pub commands: u64,
    /// Instructions of Lua.
    pub instructions: u64,
}

impl Line {
    /// What the file says about this line.
    fn entry(&self) -> Entry {
        Entry {
            commands: hundredths(self.cost.command_count(), self.per),
            instructions: self.cost.instructions / self.per.max(1) as u64,
        }
    }

    fn by_kind(&self) -> String {
        let kind = |(name, count): (&String, &usize)| {
            format!("{name} {}", decimal(hundredths(*count, self.per)))
        };
        self.cost.commands.iter().map(kind).collect::<Vec<_>>().join(", ")
    }
}

/// The ledger as a table.
#[must_use]
pub fn render(lines: &[Line]) -> String {
    let mut table = row(HEAD[0], HEAD[1], HEAD[2], HEAD[3]);
    for line in lines {
        let Entry { commands, instructions } = line.entry();
        table.push_str(&row(
            &line.name,
            &decimal(commands),
            &instructions.to_string(),
            &line.by_kind(),
        ));
    }
    table
}

/// The lines of a ledger file, by name.
#[must_use]
pub fn parse(table: &str) -> BTreeMap<String, Entry> {
    table.lines().skip(1).filter_map(parse_line).collect()
}

/// What has grown since a ledger was written, one message for each line; none if nothing has.
#[must_use]
pub fn grown(lines: &[Line], known: &BTreeMap<String, Entry>) -> Vec<String> {
    let mut messages = Vec::new();
    for line in lines {
        let now = line.entry();
        match known.get(&line.name) {
            None => messages.push(format!("{}: not in the ledger", line.name)),
            Some(before) if now.commands > before.commands => messages.push(format!(
                "{}: {} commands, {} in the ledger ({})",
                line.name,
                decimal(now.commands),
                decimal(before.commands),
                line.by_kind(),
            )),
            Some(before) if now.instructions > with_slack(before.instructions) => messages
                .push(format!("{}: {} instructions, {before:?}", line.name, now.instructions)),
            Some(_) => {}
        }
    }
    messages
}

/// The ledger beside that of another library: each figure, the other one and the change.
#[must_use]
pub fn compare(lines: &[Line], other: &BTreeMap<String, Entry>) -> String {
    let mut table = format!(
        "{:<62}{:>9}{:>9}{:>7}{:>14}{:>9}{:>7}\n",
        HEAD[0], HEAD[1], "release", "", HEAD[2], "release", ""
    );
    for line in lines {
        let now = line.entry();
        let before = other.get(&line.name);
        let text = |figure: Option<u64>| figure.map_or("-".to_owned(), |figure| figure.to_string());
        let commands = before.map(|before| before.commands);
        let instructions = before.map(|before| before.instructions);
        let _ = writeln!(
            table,
            "{:<62}{:>9}{:>9}{:>7}{:>14}{:>9}{:>7}",
            line.name,
            decimal(now.commands),
            commands.map_or("-".to_owned(), decimal),
            change(now.commands, commands),
            now.instructions,
            text(instructions),
            change(now.instructions, instructions),
        );
    }
    table
}

fn row(name: &str, commands: &str, instructions: &str, by_kind: &str) -> String {
    format!("{name:<62}{commands:>9}{instructions:>14}  {by_kind}").trim_end().to_owned() + "\n"
}

fn parse_line(line: &str) -> Option<(String, Entry)> {
    let mut columns = line.split("  ").map(str::trim).filter(|column| !column.is_empty());
    let name = columns.next()?.to_owned();
    let commands = columns.next()?;
    let (whole, part) = commands.split_once('.').unwrap_or((commands, "00"));
    let commands = whole.parse::<u64>().ok()? * 100 + part.parse::<u64>().ok()?;
    let instructions = columns.next()?.parse().ok()?;
    Some((name, Entry { commands, instructions }))
}

/// The change in percent.
fn change(now: u64, before: Option<u64>) -> String {
    match before {
        None => "new".to_owned(),
        Some(before) if before == now => String::new(),
        Some(0) => "+".to_owned(),
        Some(before) => {
            let percent = (now * 100).abs_diff(before * 100) / before;
            format!("{}{percent}%", if now > before { '+' } else { '-' })
        }
    }
}

fn with_slack(instructions: u64) -> u64 {
    instructions + instructions * INSTRUCTIONS_SLACK_PERCENT / 100
}

fn hundredths(count: usize, per: usize) -> u64 {
    (count * 100).div_ceil(per.max(1)) as u64
}

fn decimal(hundredths: u64) -> String {
    match (hundredths / 100, hundredths % 100) {
        (whole, 0) => whole.to_string(),
        (whole, part) => format!("{whole}.{part:02}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::Cost;

    fn line(per: usize, count: usize, instructions: u64) -> Line {
        let commands = BTreeMap::from([("hset".to_owned(), count)]);
        Line { name: "ff_some: a shape".to_owned(), per, cost: Cost { commands, instructions } }
    }

    #[test]
    fn a_ledger_is_read_as_it_was_written() {
        for line in [line(1, 17, 400), line(100, 297, 5_000)] {
            let entry = line.entry();
            assert_eq!(parse(&render(std::slice::from_ref(&line))), [(line.name, entry)].into());
        }
    }

    #[test]
    fn growth_is_told_and_nothing_else() {
        let known = parse(&render(&[line(10, 30, 10_000)]));
        assert!(grown(&[line(10, 30, 10_200)], &known).is_empty());
        assert!(grown(&[line(10, 20, 5_000)], &known).is_empty());
        assert_eq!(grown(&[line(10, 31, 10_000)], &known).len(), 1);
        assert_eq!(grown(&[line(10, 30, 10_300)], &known).len(), 1);
        assert_eq!(grown(&[line(10, 30, 10_000)], &BTreeMap::new()).len(), 1);
    }
}
