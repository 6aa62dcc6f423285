//! Publishing. There are no subscribers inside the process; what is sent is kept for who asks.

use super::{Env, Handled, Message, wrote};
use selvedge_core::value::Value;

pub(super) fn publish(env: &mut Env<'_>, argv: &[Vec<u8>]) -> Handled {
    env.published.push(Message { channel: argv[1].clone(), payload: argv[2].clone() });
    wrote(Value::Int(0))
}
