//! [`Registration`]: an instance that is registered as long as its handle.

use std::fmt;
use std::sync::{Arc, Mutex};

use zoolet_client::internal::{SessionsExt as _, locked};
use zoolet_client::{Acl, Sessions, Zxid};

use super::error::DiscoveryError;
use super::format::{CuratorFormat, InstanceFormat};
use super::instance::Instance;
use crate::keep_node::{KeepError, KeepNode, KeepState, KeepStates};
use crate::path::child;

/// An instance of a service that is registered, until this is [closed](Registration::close) or dropped.
///
/// ```no_run
/// use zoolet_client::{Client, Sessions};
/// use zoolet_recipes::discovery::{Instance, Registration};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let sessions = Sessions::open(Client::options(), "zk1:2181,zk2:2181")?;
/// let instance = Instance::new("web", "web-1", "10.0.0.7").port(80);
/// let registration = Registration::builder(&sessions, "/services").start(instance)?;
/// registration.present().await?;
/// registration.close().await?;
/// # Ok(()) }
/// ```
///
/// It is a [`KeepNode`]: it is registered again after its session has expired, does not flap when a connection is lost, is
/// changed by setData, and never deletes or changes the registration of another process under the same id. So an instance that
/// was restarted waits until the server has expired the session of its former life, unless it is to
/// [take over](RegistrationBuilder::takeover).
#[must_use = "the instance is unregistered when this is dropped"]
pub struct Registration {
    keep: KeepNode,
    format: Arc<dyn InstanceFormat>,
    /// Locked until the znode is to have its data, so that of two updates the same one is the last here and there.
    instance: Mutex<Instance>,
}

/// An instance that is not registered yet, from [`Registration::builder`].
#[derive(Debug, Clone)]
#[must_use = "an instance is registered by `.start(..)`"]
pub struct RegistrationBuilder {
    sessions: Sessions,
    base: String,
    format: Arc<dyn InstanceFormat>,
    acl: Vec<Acl>,
    takeover: bool,
}

impl Registration {
    /// Begins to configure how an instance is registered below `base`: at `<base>/<name of the service>/<id>`, unless the format
    /// chooses another last component.
    pub fn builder(sessions: &Sessions, base: impl Into<String>) -> RegistrationBuilder {
        RegistrationBuilder {
            sessions: sessions.clone(),
            base: base.into(),
            format: Arc::new(CuratorFormat::default()),
            acl: Acl::open(),
            takeover: false,
        }
    }

    /// The path of the znode.
    pub fn path(&self) -> &str {
        self.keep.path()
    }

    /// The instance as it is to be registered.
    pub fn instance(&self) -> Instance {
        locked(&self.instance).clone()
    }

    /// As [`KeepNode::state`].
    pub fn state(&self) -> KeepState {
        self.keep.state()
    }

    /// As [`KeepNode::states`].
    pub fn states(&self) -> KeepStates {
        self.keep.states()
    }

    /// Waits until the instance is registered, and returns the transaction by which it was.
    ///
    /// # Errors
    /// As [`KeepNode::present`].
    /// # Ordering and cancel safety
    /// Dropping the future has no effect.
    pub async fn present(&self) -> Result<Zxid, KeepError> {
        self.keep.present().await
    }

    /// Replaces the instance. The returned future waits until others can see that.
    ///
    /// The time of registration stays, unless the new instance has another.
    ///
    /// # Errors
    /// `Encode`; `OtherNode` if the new instance has another znode, because its name or id differs or its
    /// [format](super::ServerSetFormat) says so. Nothing is changed then. And `Keep`, as [`KeepNode::update`].
    /// # Ordering and cancel safety
    /// Takes effect with the call. Dropping the future does not cancel it.
    pub fn update(&self, mut instance: Instance) -> impl Future<Output = Result<(), DiscoveryError>> + use<> {
        let mut present = locked(&self.instance);
        if instance.registration_time_utc == 0 {
            instance.registration_time_utc = present.registration_time_utc;
        }
        let node_of = |instance: &Instance| (instance.name.clone(), self.format.node_name(instance));
        let data = if node_of(&present) == node_of(&instance) {
            self.format.encode(&instance).map_err(DiscoveryError::encode)
        } else {
            Err(DiscoveryError::OtherNode { path: self.path().to_owned() })
        };
        let updated = data.map(|data| {
            *present = instance;
            self.keep.update(data)
        });
        async move { Ok(updated?.await?) }
    }

    /// Says whether the instance is to be used, as [`update`](Registration::update) does.
    ///
    /// # Errors
    /// As `update`: `Encode` if the format cannot say it, such as [`CuratorFormat::compatible`].
    /// # Ordering and cancel safety
    /// As `update`.
    pub fn set_enabled(&self, enabled: bool) -> impl Future<Output = Result<(), DiscoveryError>> + use<> {
        let mut instance = self.instance();
        instance.enabled = enabled;
        self.update(instance)
    }

    /// Unregisters the instance, if its znode is ours. Dropping this does the same in the background.
    ///
    /// # Errors
    /// As [`KeepNode::close`].
    /// # Ordering and cancel safety
    /// Begins with the call. Dropping the future does not cancel it.
    pub fn close(self) -> impl Future<Output = Result<(), KeepError>> + use<> {
        self.keep.close()
    }
}

impl RegistrationBuilder {
    /// How the instance is written.
    ///
    /// Default: [`CuratorFormat::compatible`].
    pub fn format(mut self, format: impl InstanceFormat) -> Self {
        self.format = Arc::new(format);
        self
    }

    /// The ACL of the znode and of the parents that are created.
    ///
    /// Default: [`Acl::open`].
    pub fn acl(mut self, acl: Vec<Acl>) -> Self {
        self.acl = acl;
        self
    }

    /// Replaces a znode that another session has at the path: for ids of which one process at most is alive, so that one that was
    /// restarted does not wait for the expiry of its former session.
    ///
    /// Default: no.
    pub fn takeover(mut self) -> Self {
        self.takeover = true;
        self
    }

    /// Registers the instance, in the background. A time of registration of 0 is replaced by the present one.
    ///
    /// # Errors
    /// `InvalidName`; `Encode`; `Keep` with `InvalidPath`.
    pub fn start(self, mut instance: Instance) -> Result<Registration, DiscoveryError> {
        let Self { sessions, base, format, acl, takeover } = self;
        if instance.registration_time_utc == 0 {
            instance.registration_time_utc = sessions.clock().wall_millis();
        }
        let data = format.encode(&instance).map_err(DiscoveryError::encode)?;
        let node = format.node_name(&instance);
        for what in [&instance.name, &node] {
            if what.is_empty() || what.contains('/') {
                return Err(DiscoveryError::InvalidName { what: what.clone() });
            }
        }
        let path = child(&child(&base, &instance.name), &node);
        let keep = KeepNode::builder(&sessions, path).data(data).acl(acl);
        let keep = if takeover { keep.takeover() } else { keep };
        Ok(Registration { keep: keep.start()?, format, instance: Mutex::new(instance) })
    }
}

impl fmt::Debug for Registration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registration").field("path", &self.path()).field("state", &self.state()).finish()
    }
}
