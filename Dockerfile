# syntax=docker/dockerfile:1

FROM rust:1.95.0-bookworm AS build
# librdkafka is built from source, against Debian's TLS and compression libraries.
RUN apt-get update \
    && apt-get install -y --no-install-recommends \
        cmake g++ libcurl4-openssl-dev libssl-dev pkg-config zlib1g-dev \
    && rm -rf /var/lib/apt/lists/*
# The image's own toolchain, without the components that rust-toolchain.toml names for development.
ENV RUSTUP_TOOLCHAIN=1.95.0
WORKDIR /source
COPY . .
# Git's own folder is not copied: --build-arg FLOODMARK_COMMIT=$(git rev-parse --short=12 HEAD) names it in --version.
ARG FLOODMARK_COMMIT=
# The caches outlive a change of the sources, and are no part of a layer: hence the copy.
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/source/target \
    cargo build --release --locked --bin floodmark \
    && cp target/release/floodmark /usr/local/bin/floodmark

FROM debian:bookworm-slim
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates libssl3 zlib1g \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --no-create-home --shell /usr/sbin/nologin floodmark
COPY --from=build /usr/local/bin/floodmark /usr/local/bin/floodmark
COPY --chmod=755 deploy/healthcheck /usr/local/bin/healthcheck
USER floodmark
EXPOSE 8080
HEALTHCHECK --interval=10s --timeout=2s CMD ["healthcheck", "/healthz"]
ENTRYPOINT ["floodmark"]
