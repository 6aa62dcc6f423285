//! What needs a feature that is switched off says which.

use super::*;

/// Opens a URL, and tells which feature the crate lacks for it.
async fn feature_lacked_for(url: &str) -> Option<&'static str> {
    let opened = Store::open(&url.parse().unwrap(), StoreOptions::default()).await;
    match opened.expect_err("there is no server") {
        StoreError::FeatureDisabled { feature, .. } => Some(feature),
        _ => None,
    }
}

#[cfg(not(feature = "memory"))]
#[tokio::test]
async fn a_store_in_memory_needs_its_feature() {
    assert_eq!(feature_lacked_for("memory://").await, Some("memory"));
}

#[cfg(not(feature = "tls"))]
#[tokio::test]
async fn a_store_with_tls_needs_its_feature() {
    assert_eq!(feature_lacked_for("valkeys://127.0.0.1:1").await, Some("tls"));
    assert_eq!(feature_lacked_for("valkey://127.0.0.1:1").await, None);
}
