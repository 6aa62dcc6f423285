//! The host as its callers see it.

mod inspection;
mod limits;
mod scripts;
mod slot_moves;

use selvedge_core::value::Value;

use super::{Host, HostConfig, InnerCommand, Message, Outcome, Session};

fn host() -> Host {
    Host::new(HostConfig::default())
}

fn call(host: &mut Host, line: &str) -> Value {
    host.call(&line.split(' ').collect::<Vec<_>>())
}

/// Loads a library with one function `f` of this body.
fn load(host: &mut Host, body: &str) {
    load_with(host, body, "");
}

fn load_with(host: &mut Host, body: &str, flags: &str) {
    let code = format!(
        "#!lua name=lib\nredis.register_function{{function_name='f', flags={{{flags}}}, \
         callback=function(KEYS, ARGV) {body} end}}"
    );
    assert_eq!(host.call(&["FUNCTION", "LOAD", "REPLACE", &code]), bulk("lib"));
}

fn eval(body: &str) -> Value {
    host().call(&["EVAL", body, "0"])
}

fn bulk(text: &str) -> Value {
    Value::Bulk(text.as_bytes().to_vec())
}

fn error(text: &str) -> Value {
    Value::Error(text.to_owned())
}

fn ok() -> Value {
    Value::Status("OK".to_owned())
}

fn words(line: &str) -> Vec<Vec<u8>> {
    line.split(' ').map(|word| word.as_bytes().to_vec()).collect()
}

#[test]
fn the_library_answers_its_version() {
    let mut host = host();
    let source = crate::library::SOURCE;
    assert_eq!(host.call(&["FUNCTION", "LOAD", source]), bulk(crate::library::NAME));
    let none: [&str; 0] = [];
    let version = host.fcall("ff_version", &none, &none);
    assert_eq!(version, host.call(&["FCALL", "ff_version", "0"]));
    assert_eq!(version, bulk(crate::library::VERSION));
}
