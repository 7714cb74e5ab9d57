//! What every [`IncidentStore`](floodmark_sinks::IncidentStore) promises, whichever database it is.
//!
//! Each promise takes a store that holds nothing yet. [`promises`] makes a test of each.

pub(crate) mod builders;
pub(crate) mod episodes;
pub(crate) mod incidents;
pub(crate) mod progress;
pub(crate) mod rules;
pub(crate) mod superseding;

/// One test for each promise of a module. `$fresh` makes a store, and what has to live as long as it.
macro_rules! promises {
    ($fresh:path: $($module:ident::$promise:ident),* $(,)?) => {
        $(
            #[tokio::test]
            async fn $promise() {
                let (store, _keep) = $fresh().await;
                $crate::incident_store::$module::$promise(&store).await;
            }
        )*
    };
}
pub(crate) use promises;
