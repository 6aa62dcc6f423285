//! Every spec case on every store.

use std::path::Path;
use std::thread;

use selvedge_lua::library::SOURCE;
use selvedge_tests::lua_header::Header;
use selvedge_tests::spec::suite::Suite;
use selvedge_tests::spec::{STORES, coverage, run_on, start};

fn tests_folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn every_case_passes_on_every_store() {
    let suite = &Suite::read(&tests_folder().join("spec")).unwrap();
    let failures: Vec<String> = thread::scope(|scope| {
        let runs = STORES.map(|name| {
            scope.spawn(move || {
                let mut store = start(name, SOURCE).unwrap();
                let tally = run_on(suite, "", &mut *store);
                assert!(tally.cases > 0, "{name} ran no case");
                tally.failures.iter().map(ToString::to_string).collect::<Vec<_>>()
            })
        });
        runs.into_iter().flat_map(|run| run.join().unwrap()).collect()
    });
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn every_function_and_every_reply_has_a_case() {
    let suite = Suite::read(&tests_folder().join("spec")).unwrap();
    let headers = Header::read_all(&tests_folder().with_file_name("lua")).unwrap();
    let mut store = start("valkey", SOURCE).unwrap();
    let gaps = coverage::gaps(&suite, &headers, &mut *store).unwrap();
    assert!(gaps.is_empty(), "{} gaps:\n{}", gaps.len(), gaps.join("\n"));
}
