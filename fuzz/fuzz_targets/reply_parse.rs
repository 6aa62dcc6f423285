//! Every reply parser takes any reply: a typed reply or a typed error, never a panic.
#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use selvedge_core::call::signatures;
use selvedge_core::value::Value;

/// A reply, in a form that the fuzzer can draw.
#[derive(Arbitrary, Clone, Debug)]
enum Drawn {
    Nil,
    Int(i64),
    Bulk(Vec<u8>),
    Word(Word),
    Status(String),
    Error(String),
    Array(Vec<Drawn>),
}

/// Words that get a reply past the first checks.
#[derive(Arbitrary, Clone, Copy, Debug)]
enum Word {
    Ok,
    Duplicate,
    AlreadySatisfied,
    Refused,
    Execution,
    Uuid,
    Number,
}

impl From<Drawn> for Value {
    fn from(drawn: Drawn) -> Self {
        match drawn {
            Drawn::Nil => Self::Nil,
            Drawn::Int(number) => Self::Int(number),
            Drawn::Bulk(bytes) => Self::Bulk(bytes),
            Drawn::Word(word) => Self::Bulk(
                match word {
                    Word::Ok => "OK",
                    Word::Duplicate => "DUPLICATE",
                    Word::AlreadySatisfied => "ALREADY_SATISFIED",
                    Word::Refused => "execution_not_active",
                    Word::Execution => "{fp:7}:550e8400-e29b-41d4-a716-446655440000",
                    Word::Uuid => "550e8400-e29b-41d4-a716-446655440000",
                    Word::Number => "1700000000000",
                }
                .into(),
            ),
            Drawn::Status(text) => Self::Status(text),
            Drawn::Error(text) => Self::Error(text),
            Drawn::Array(elements) => Self::Array(elements.into_iter().map(Into::into).collect()),
        }
    }
}

fuzz_target!(|drawn: Drawn| {
    let reply = Value::from(drawn);
    for signature in signatures() {
        let _ = (signature.check)(reply.clone());
    }
});
