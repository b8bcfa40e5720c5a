//! The creates of a contender's znodes.

use bytes::Bytes;
use zoolet_client::{Create, Created, Error, MultiOutcome, Reply};

use crate::contender::Slot;
use crate::queue::child;
use crate::setup::Setup;

/// The creates of a contender's znodes, under way: one of them by itself, several as one transaction.
pub(crate) enum Creating {
    One(Reply<Created>),
    Several(Reply<Vec<MultiOutcome>>),
}

impl Creating {
    pub(crate) fn send(setup: &Setup, slots: &[Slot], data: &Bytes) -> Self {
        let create = |slot: &Slot| -> Create<'_> {
            let path = child(&slot.dir, &slot.prefix);
            setup.client.create(path, data.clone()).ephemeral().sequential().acl(setup.acl.clone())
        };
        match slots {
            [slot] => Self::One(create(slot).send()),
            _ => Self::Several(
                slots.iter().fold(setup.client.multi(), |multi, slot| multi.add(create(slot))).send(),
            ),
        }
    }

    /// What was created; `None` where the server did not tell all of it, as those before 3.9 do.
    pub(crate) async fn created(self) -> Result<Vec<Option<Created>>, Error> {
        Ok(match self {
            Self::One(reply) => vec![Some(reply.await?)],
            Self::Several(reply) => reply.await?.into_iter().map(created).collect(),
        })
    }
}

fn created(outcome: MultiOutcome) -> Option<Created> {
    match outcome {
        MultiOutcome::Created { path, stat: Some(stat) } => Some(Created::new(path, stat)),
        _ => None,
    }
}
