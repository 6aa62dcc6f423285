//! The command line as a newcomer meets it.

use std::process::{Command, Output};

fn selvedge(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_selvedge"))
        .args(arguments)
        .output()
        .expect("the binary is built")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("plain text")
}

#[test]
fn the_demo_ends_as_expected_without_a_server() {
    let ran = selvedge(&["demo"]);
    let told = text(&ran.stdout);
    assert!(ran.status.success(), "{told}{}", text(&ran.stderr));
    assert!(told.contains("All ended as expected"), "{told}");
    for shown in ["is killed in the middle", "finishes `mortal`, attempt 2", "3 cancelled"] {
        assert!(told.contains(shown), "{shown}: {told}");
    }
}

#[test]
fn the_library_is_printed_as_servers_take_it() {
    let whole = text(&selvedge(&["library"]).stdout);
    assert_eq!(whole, selvedge_lua::library::SOURCE);
    let body = text(&selvedge(&["library", "--no-header"]).stdout);
    assert_eq!(format!("#!lua name=flowfabric\n{body}"), whole);
}

#[test]
fn a_wrong_word_is_answered_with_the_right_one() {
    let ran = selvedge(&["libary"]);
    assert_eq!(ran.status.code(), Some(2));
    assert!(text(&ran.stderr).contains("library"), "{}", text(&ran.stderr));
}
