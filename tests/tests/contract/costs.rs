//! No function costs more than its line in the ledger. `SELVEDGE_UPDATE=1` rewrites the ledger;
//! commit the difference only when each line of it can be explained.

use std::fs;
use std::path::Path;

use selvedge_lua::library::SOURCE;
use selvedge_tests::ledger::{grown, measure, parse, render};
use selvedge_tests::spec::suite::Suite;

#[test]
fn no_function_costs_more_than_the_ledger_says() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let ledger = folder.join("costs/ledger.txt");
    let lines = measure(SOURCE, &Suite::read(&folder.join("spec")).unwrap()).unwrap();
    if std::env::var_os("SELVEDGE_UPDATE").is_some() {
        fs::write(&ledger, render(&lines)).unwrap();
        return;
    }
    let grown = grown(&lines, &parse(&fs::read_to_string(&ledger).unwrap()));
    assert!(grown.is_empty(), "{} lines have grown:\n{}", grown.len(), grown.join("\n"));
}
