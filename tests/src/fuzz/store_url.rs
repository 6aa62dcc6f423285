//! Store URLs: any text is read, or refused with a reason, and no password is shown.

use selvedge::SecretText;
use selvedge::store::StoreUrl;

/// Reads a text as a URL.
///
/// # Panics
/// When a password shows, or a URL does not mean the same when it is read again, or one that was
/// written with care is refused.
pub fn run(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    a_well_formed_document_must_be_accepted(text);
    let said = say(text);
    if let Some(other) = with_another_password(text) {
        assert_eq!(said, say(&other), "what is said of `{text}` depends on its password");
    }
    if let Ok(url) = text.parse::<StoreUrl>() {
        let shown = url.to_string();
        let again = shown.parse::<StoreUrl>();
        let told = again.as_ref().map(ToString::to_string);
        assert_eq!(told.as_ref(), Ok(&shown), "`{text}` is shown as something that is no URL");
        assert_eq!(again.as_ref().map(means), Ok(means(&url)), "`{text}` is shown as another one");
        let tls = text.starts_with("valkeys://") || text.starts_with("rediss://");
        assert_eq!(url.is_tls(), tls, "`{text}` is reached in another way than it says");
    }
}

/// Whatever a URL can say can be written down, any user and any password with each byte escaped,
/// and means just that.
fn a_well_formed_document_must_be_accepted(text: &str) {
    let mut parts = text.splitn(5, ' ');
    let mut part = || parts.next().unwrap_or_default();
    let (user, password, database) = (part(), part(), part().len() % 16);
    let named = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'-' || *byte == b'.';
    let host = |name: &str| -> String {
        let letters: String = name.bytes().filter(named).map(char::from).collect();
        format!("h{letters}:{}", name.len() % 65_535 + 1)
    };
    let hosts: Vec<String> = part().split(',').map(host).collect();
    let (hosts, several) = (hosts.join(","), hosts.len() > 1);
    let asks = !part().is_empty();
    let query = if asks { "?cluster=true" } else { "" };
    let escaped = |text: &str| text.bytes().map(|byte| format!("%{byte:02x}")).collect::<String>();
    let (named, secret) = (escaped(user), escaped(password));
    let url = format!("valkeys://{named}:{secret}@{hosts}/{database}{query}");
    let read: StoreUrl = url.parse().unwrap_or_else(|error| panic!("`{url}` is refused: {error}"));
    let bare: StoreUrl = format!("valkeys://{hosts}/{database}{query}").parse().expect("no less");
    // Said in the plainest way, where nothing that goes without saying is said.
    let path = if database == 0 { String::new() } else { format!("/{database}") };
    let shown = format!("valkeys://{hosts}{path}{}", if several { "" } else { query });
    assert_eq!(bare.to_string(), shown, "of `{url}`");
    let given = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    let meant = bare.with_credentials(given(user), given(password).map(SecretText::new));
    assert!(read == meant, "`{url}` is read as {read}");
    assert_eq!(read.user(), given(user).as_deref(), "`{url}`");
}

/// The parts of a URL that a connection uses.
fn means(url: &StoreUrl) -> (bool, bool, Option<&str>, bool) {
    (url.is_memory(), url.is_tls(), url.user(), url.has_password())
}

/// Everything that is shown of a URL.
fn say(text: &str) -> String {
    match text.parse::<StoreUrl>() {
        Ok(url) => format!("{url} {url:?} {}", url.is_memory()),
        Err(error) => format!("{error} {error:?}"),
    }
}

/// The same URL, but that letters and digits of its password are other ones.
fn with_another_password(text: &str) -> Option<String> {
    let (scheme, rest) = text.split_once("://")?;
    let (before, host) = rest.rsplit_once('@')?;
    let (user, password) = before.split_once(':')?;
    // Of an escape only the digits could be changed, and not every pair of them is a letter.
    if password.contains('%') {
        return None;
    }
    let other: String = password
        .chars()
        .map(|letter| match letter {
            '0'..='8' => '9',
            '9' => '8',
            'a'..='y' | 'A'..='Z' => 'z',
            'z' => 'y',
            other => other,
        })
        .collect();
    Some(format!("{scheme}://{user}:{other}@{host}"))
}
