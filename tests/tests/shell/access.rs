//! Access: TLS with certificates on both sides, ACL users, numbered databases, foreign libraries.

use std::net::TcpListener;
use std::path::{Path, PathBuf};

use selvedge::store::{LibraryUse, Store, StoreError, StoreOptions, StoreUrl, TlsOptions};
use selvedge_core::call::library::LibraryRevision;
use selvedge_core::error::Class;
use selvedge_core::value::Value;
use selvedge_lua::library;
use selvedge_tests::server::{Kind, Options, Server};

use crate::kit::{block_on, open, url_of};
use crate::stores::behaves;

fn certificate(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data/tls").join(name)
}

fn tls(ca: Option<&str>, client: Option<&str>) -> StoreOptions {
    let mut tls = TlsOptions::default();
    tls.ca_file = ca.map(certificate);
    tls.cert_file = client.map(|name| certificate(&format!("{name}.pem")));
    tls.key_file = client.map(|name| certificate(&format!("{name}.key")));
    StoreOptions::default().tls(tls)
}

#[test]
fn tls_trusts_the_named_authority_and_shows_a_certificate() {
    let line = |name: &str, file: &str| format!("{name} {}", certificate(file).display());
    let start = |_| {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let options = Options::default()
            .line(format!("tls-port {port}"))
            .line(line("tls-cert-file", "server.pem"))
            .line(line("tls-key-file", "server.key"))
            .line(line("tls-ca-cert-file", "ca.pem"))
            .line("tls-auth-clients yes");
        // The Valkey that the tests fetch is built without TLS; Debian's Redis has it.
        Some((Server::start(Kind::Redis, options).ok()?, port))
    };
    // Somebody else may have taken the port meanwhile.
    let (_server, port) = (0..5).find_map(start).unwrap();
    let url: StoreUrl = format!("rediss://127.0.0.1:{port}").parse().unwrap();
    block_on(async {
        let store = Store::open(&url, tls(Some("ca.pem"), Some("client"))).await.unwrap();
        behaves(&store).await;
        let stranger = Store::open(&url, tls(Some("client.pem"), Some("client"))).await;
        let text = stranger.unwrap_err().to_string();
        assert!(text.contains("certificate"), "an authority that nobody knows: {text}");
        let unknown = Store::open(&url, tls(Some("ca.pem"), None)).await.unwrap_err().to_string();
        assert!(unknown.contains("TLS: ") && unknown.contains("ertificate"), "{unknown}");
        let plain: StoreUrl = format!("redis://127.0.0.1:{port}").parse().unwrap();
        assert!(Store::open(&plain, StoreOptions::default()).await.is_err(), "no TLS at all");
    });
    for (options, why) in [
        (tls(Some("nowhere.pem"), None), "nowhere.pem"),
        (tls(Some("client.key"), None), "no certificate"),
        (tls(Some("ca.pem"), Some("nobody")), "nobody.pem"),
    ] {
        let error = block_on(Store::open(&url, options)).unwrap_err();
        assert!(matches!(&error, StoreError::Tls(bad) if bad.to_string().contains(why)), "{error}");
    }
}

#[test]
fn users_and_databases_are_those_of_the_url() {
    let server = Server::valkey().unwrap();
    let mut admin = server.connect().unwrap();
    let rules = ["ACL", "SETUSER", "app", "on", ">p@ss", "~*", "&*", "+@all", "-function"];
    assert!(!matches!(admin.call(&rules).unwrap(), Value::Error(_)));
    let url: StoreUrl =
        format!("valkey://app:p%40ss@127.0.0.1:{}/3", server.port()).parse().unwrap();
    block_on(async {
        // It may not load the library, and says so; where it is there, it need not.
        let error = Store::open(&url, StoreOptions::default()).await.unwrap_err();
        let StoreError::Server(error) = error else { panic!("{error}") };
        assert_eq!(error.class, Class::Denied, "{error}");
        assert!(error.text.starts_with("NOPERM"), "{error}");
        let _loads = open(&url_of(&server)).await;
        behaves(&Store::open(&url, StoreOptions::default()).await.unwrap()).await;
    });
    assert_eq!(admin.call(&["GET", "store-test:7"]).unwrap(), Value::Nil);
    admin.call(&["SELECT", "3"]).unwrap();
    assert_eq!(admin.call(&["GET", "store-test:7"]).unwrap(), Value::Bulk(b"7".to_vec()));
}

/// What a server says when it holds our library with another revision, and perhaps less of it.
fn edition(server: &Server, revision: &str, without: Option<&str>) {
    let mut text = library::SOURCE.replace(
        &format!("ok(\"{}\", \"{}\")", library::REVISION, library::DIGEST),
        &format!("ok(\"{revision}\", \"another\")"),
    );
    if let Some(name) = without {
        text = text.replace(&format!("define(\"{name}\""), &format!("define(\"{name}_gone\""));
    }
    assert_ne!(text, library::SOURCE);
    let mut admin = server.connect().unwrap();
    let reply = admin.call(&["FUNCTION", "LOAD", "REPLACE", &text]).unwrap();
    assert!(!matches!(reply, Value::Error(_)), "{reply:?}");
}

#[test]
fn an_older_library_is_replaced_and_a_newer_one_is_not() {
    let server = Server::valkey().unwrap();
    let url = url_of(&server);
    block_on(async {
        for (found, left) in [("0", library::REVISION), ("99", 99)] {
            edition(&server, found, None);
            let store = open(&url).await;
            assert_eq!(store.call(&LibraryRevision).await.unwrap().revision, left);
        }
        edition(&server, "99", Some("ff_claim_next"));
        let error = Store::open(&url, StoreOptions::default()).await.unwrap_err().to_string();
        assert!(error.contains("ff_claim_next") && error.contains("upgrade"), "{error}");
        let options = StoreOptions::default().library(LibraryUse::Leave);
        let store = Store::open(&url, options).await.unwrap();
        assert_eq!(store.call(&LibraryRevision).await.unwrap().revision, 99, "and is still there");
    });
}
