//! How the servers that are compared are set up.

use zoolet_core::CoreConfig;

pub struct Settings {
    pub core: CoreConfig,
}

/// The digest of `super:secret`.
pub const SUPER: &str = "super:lK75jTNcA+U9vtVEw5vB51mj/w4=";

impl Settings {
    pub fn plain() -> Self {
        Self { core: CoreConfig { tick_time: 2_000, ..CoreConfig::default() } }
    }

    /// As [`Settings::plain`], and an upstream with `reconfigEnabled=true` in its configuration and started with
    /// `-Dzookeeper.extendedTypesEnabled=true -Dzookeeper.enforceQuota=true
    /// -Dzookeeper.DigestAuthenticationProvider.superDigest=…`, which is [`SUPER`].
    pub fn extended() -> Self {
        let Self { core } = Self::plain();
        let core = CoreConfig {
            extended_types: true,
            enforce_quota: true,
            reconfig_enabled: true,
            super_digest: Some(SUPER.into()),
            ..core
        };
        Self { core }
    }
}
