//! An engine as a process of its own, for tests that kill it: what `selvedge serve` runs, with
//! everything said by the environment.

use selvedge::config::Settings;
use selvedge::serve::serve;
use tokio_util::sync::CancellationToken;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let settings = Settings::from_env()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(serve(settings, CancellationToken::new(), |address| println!("{address}")))?;
    Ok(())
}
