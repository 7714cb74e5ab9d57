//! `/healthz`, `/readyz` and `/metrics`.

use crate::metrics::Metrics;
use crate::pipeline::health::Health;
use crate::pipeline::stop::Stop;
use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use std::fmt::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpListener;

/// What the handlers show.
#[derive(Clone)]
pub struct Shown {
    /// For `/readyz`.
    pub health: Arc<Health>,
    /// For `/metrics`.
    pub metrics: Arc<Metrics>,
}

/// Opens the listening socket.
///
/// # Errors
///
/// When the address cannot be listened on; the message says what to do.
pub async fn listen(address: SocketAddr) -> anyhow::Result<TcpListener> {
    use anyhow::Context;
    TcpListener::bind(address)
        .await
        .with_context(|| format!("cannot listen on {address}: choose another address with --listen or `listen`"))
}

/// Serves until the pipeline ends.
///
/// # Errors
///
/// When the socket fails.
pub async fn serve(listener: TcpListener, shown: Shown, stop: Stop) -> std::io::Result<()> {
    let router = Router::new()
        .route("/healthz", get(async || "alive\n"))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics))
        .with_state(shown);
    axum::serve(listener, router).with_graceful_shutdown(async move { stop.stopped().await }).await
}

/// 200 when the pipeline works, else 503 with what is wrong, a line each.
async fn ready(State(shown): State<Shown>) -> impl IntoResponse {
    let troubles = shown.health.troubles();
    if troubles.is_empty() {
        return (StatusCode::OK, "ready\n".to_owned());
    }
    let lines = troubles.iter().fold(String::new(), |mut text, (part, what)| {
        let _ = writeln!(text, "{part}: {what}");
        text
    });
    (StatusCode::SERVICE_UNAVAILABLE, lines)
}

async fn metrics(State(shown): State<Shown>) -> impl IntoResponse {
    const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, OPEN_METRICS)], shown.metrics.render(shown.health.troubles().is_empty()))
}
