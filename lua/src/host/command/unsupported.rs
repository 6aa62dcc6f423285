//! The commands of Valkey 9 that the host lacks, so that a script which calls one learns its name.

/// Whether a server would know this command.
pub(crate) fn is_unsupported(name: &[u8]) -> bool {
    UNSUPPORTED.iter().any(|known| name.eq_ignore_ascii_case(known.as_bytes()))
}

#[rustfmt::skip]
const UNSUPPORTED: &[&str] = &[
    "acl", "auth", "bgrewriteaof", "bgsave", "bitcount", "bitfield", "bitfield_ro",
    "bitop", "bitpos", "blmove", "blmpop", "blpop", "brpop", "brpoplpush", "bzmpop", "bzpopmax",
    "bzpopmin", "client", "cluster", "clusterscan", "command", "commandlog", "config", "debug",
    "delifeq", "dump", "failover", "geoadd", "geodist", "geohash", "geopos", "georadius",
    "georadius_ro", "georadiusbymember", "georadiusbymember_ro", "geosearch", "geosearchstore",
    "getbit", "getex", "getrange", "getset", "hello", "hexpire", "hexpireat", "hexpiretime",
    "hgetdel", "hgetex", "hincrbyfloat", "hpersist", "hpexpire", "hpexpireat", "hpexpiretime",
    "hpttl", "hrandfield", "hsetex", "httl", "incrbyfloat", "info", "lastsave", "latency", "lcs",
    "lindex", "linsert", "llen", "lmove", "lmpop", "lolwut", "lpop", "lpos", "lpush", "lpushx",
    "lrange", "lrem", "lset", "ltrim", "memory", "migrate", "module", "monitor", "move", "msetex",
    "msetnx", "object", "pfadd", "pfcount", "pfdebug", "pfmerge", "pfselftest", "psetex",
    "psubscribe", "psync", "pubsub", "punsubscribe", "quit", "randomkey", "readonly", "readwrite",
    "renamenx", "replconf", "replicaof", "reset", "restore", "restore-asking", "role", "rpop",
    "rpoplpush", "rpush", "rpushx", "save", "sdiff", "sdiffstore", "select", "setbit", "setex",
    "setrange", "shutdown", "sinter", "sintercard", "sinterstore", "slaveof", "slowlog", "smove",
    "sort", "sort_ro", "spublish", "ssubscribe", "subscribe", "substr", "sunion", "sunionstore",
    "sunsubscribe", "swapdb", "sync", "touch", "unsubscribe", "unwatch", "wait", "waitaof",
    "watch", "xack", "xautoclaim", "xclaim", "xgroup", "xinfo", "xpending", "xreadgroup",
    "xsetid", "zdiff", "zdiffstore", "zinter", "zintercard", "zinterstore", "zlexcount", "zmpop",
    "zrandmember", "zrangebylex", "zrangestore", "zremrangebylex", "zrevrangebylex", "zunion",
    "zunionstore",
];

#[cfg(test)]
mod tests {
    use selvedge_core::value::Value;

    use super::{UNSUPPORTED, is_unsupported};
    use crate::host::command::lookup;
    use crate::host::{Host, HostConfig};

    #[test]
    fn what_is_unsupported_is_not_there() {
        assert!(UNSUPPORTED.is_sorted());
        for name in UNSUPPORTED {
            assert!(lookup(name.as_bytes()).is_none(), "{name}");
        }
        assert!(is_unsupported(b"LPush") && !is_unsupported(b"nosuch"));
    }

    #[test]
    fn an_unsupported_command_is_named_to_a_client_and_to_a_script() {
        let mut host = Host::new(HostConfig::default());
        for reply in [
            host.call(&["LPUSH", "k", "v"]),
            host.call(&["EVAL", "return redis.call('LPUSH', 'k', 'v')", "0"]),
            host.call(&["EVAL", "return redis.pcall('lpush', 'k', 'v')", "0"]),
        ] {
            let Value::Error(text) = reply else { panic!("{reply:?}") };
            assert!(text.to_lowercase().contains("'lpush'"), "{text}");
        }
        let unknown = host.call(&["EVAL", "return redis.pcall('NOSUCH')", "0"]);
        assert_eq!(unknown, Value::Error("ERR Unknown command called from script".to_owned()));
    }
}
