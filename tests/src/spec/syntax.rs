//! The syntax tree of a spec file.

use std::path::PathBuf;

use crate::spec::word::Word;

/// One file: the contract of one function, or the setups of a folder.
#[derive(Debug, Default)]
pub struct SpecFile {
    /// Where it was read from.
    pub path: PathBuf,
    /// The function that it describes; none in a setup file.
    pub function: Option<String>,
    /// KEYS in contract order.
    pub keys: Positions,
    /// ARGV in contract order.
    pub args: Positions,
    /// `define` lines: names with values for every case.
    pub defines: Vec<(String, Word)>,
    /// Named preparations that cases and other setups perform.
    pub setups: Vec<Case>,
    /// What must hold.
    pub cases: Vec<Case>,
}

/// The keys or the arguments of a function.
#[derive(Debug, Default)]
pub struct Positions {
    /// Name and default value of each.
    pub named: Vec<(String, Word)>,
    /// What follows the named ones unless a call says otherwise: a variable part.
    pub rest: Vec<Word>,
}

/// One case or setup: acts in order, each with what must hold after it.
#[derive(Debug)]
pub struct Case {
    /// The sentence after `case` or `setup`.
    pub name: String,
    /// The line it starts at.
    pub line: usize,
    /// What is done.
    pub acts: Vec<Act>,
}

/// One thing done, and what must hold right after it.
#[derive(Debug)]
pub struct Act {
    /// The line it stands on.
    pub line: usize,
    /// The line itself, for the report.
    pub text: String,
    /// What is done.
    pub action: Action,
    /// What must hold.
    pub expectations: Vec<Expect>,
}

/// What an act does.
#[derive(Debug)]
pub enum Action {
    /// A plain command.
    Run(Vec<Word>),
    /// A plain command whose reply becomes a variable.
    Read(String, Vec<Word>),
    /// The function of this file, or with a name that of another file, by its named positions.
    Call(Option<String>, Changes),
    /// Any function, positions spelled out.
    Fcall {
        /// Its name.
        function: String,
        /// KEYS.
        keys: Vec<Word>,
        /// ARGV.
        args: Vec<Word>,
    },
    /// A setup by its name.
    Perform(String),
    /// A variable for the rest of the case.
    Set(String, Word),
    /// A variable, unless it has a value already.
    Default(String, Word),
}

/// How a call differs from the default values of its function.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    /// Positions with another value.
    pub values: Vec<(String, Word)>,
    /// Trailing positions left out.
    pub omitted: Vec<String>,
    /// Surplus keys instead of the usual ones.
    pub extra_keys: Option<Vec<Word>>,
    /// Surplus arguments instead of the usual ones.
    pub extra_args: Option<Vec<Word>>,
}

/// One expectation and where it stands.
#[derive(Debug)]
pub struct Expect {
    /// The line it stands on.
    pub line: usize,
    /// The line itself, for the report.
    pub text: String,
    /// What must hold.
    pub expectation: Expectation,
}

/// Fields or members with what their value must be.
pub type Pairs = Vec<(Word, Pattern)>;

/// What must hold after an act.
#[derive(Debug)]
pub enum Expectation {
    /// The reply is an array of exactly these.
    Reply(Vec<Pattern>),
    /// The reply is this, bare.
    Raw(Pattern),
    /// The reply is a server error with this prefix.
    Error(Vec<Word>),
    /// The hash has these fields.
    Hash(Word, Pairs),
    /// The hash has exactly these fields.
    HashExactly(Word, Pairs),
    /// The hash, which may be missing, has none of these fields.
    AbsentField(Word, Vec<Word>),
    /// The set has exactly these members.
    SetExactly(Word, Vec<Pattern>),
    /// The sorted set has exactly these members with these scores.
    Zset(Word, Pairs),
    /// The set or sorted set has these members, among others.
    Holds(Word, Vec<(Word, Option<Pattern>)>),
    /// The set or sorted set, which may be missing, has none of these members.
    Lacks(Word, Vec<Word>),
    /// The key holds this string.
    Text(Word, Pattern),
    /// The stream has exactly these entries; ids are not looked at.
    Stream(Word, Vec<Pairs>),
    /// The last entry of the stream has these fields, among others.
    LastEntry(Word, Pairs),
    /// The key expires in so many milliseconds.
    Ttl(Word, Word),
    /// The keys exist and never expire.
    NoTtl(Vec<Word>),
    /// The keys do not exist.
    Gone(Vec<Word>),
    /// The keys exist.
    Exists(Vec<Word>),
    /// One message, or none at all.
    Published(Option<(Word, Pattern)>),
    /// One message of our own channels, or none at all.
    Hinted(Option<(Word, Pattern)>),
    /// The keyspace is as before the act, but for these keys.
    Unchanged(Vec<Word>),
}

/// What one value must look like.
#[derive(Clone, Debug)]
pub enum Pattern {
    /// This text.
    Text(Word),
    /// `:n`: an integer reply or a JSON number, not a text of digits.
    Integer(i64),
    /// `*`: anything.
    Any,
    /// `...`: any number of elements.
    Rest,
    /// `~nil`.
    Nil,
    /// `~true` and `~false` in JSON.
    Boolean(bool),
    /// `~now`, `~now+5`, `~now+5..9`: the server's clock during the act, plus that much.
    Now {
        /// Least offset in milliseconds.
        from: i64,
        /// Greatest offset in milliseconds.
        to: i64,
    },
    /// `~integer`: digits, perhaps with a sign.
    Digits,
    /// `~uuid`.
    Uuid,
    /// `~text`: any text but the empty one.
    NonEmpty,
    /// `~starts:text`.
    Starts(Word),
    /// `~status:text`: a status reply such as `OK`.
    Status(Word),
    /// `~keep:name`: any text, which becomes a variable.
    Keep(String),
    /// `( … )`: an array of exactly these.
    Array(Vec<Pattern>),
    /// `~any-order ( … )`: an array of exactly these in any order.
    AnyOrder(Vec<Pattern>),
    /// `~json ( a=b … )`: a JSON object with exactly these members.
    Json(Pairs),
}
