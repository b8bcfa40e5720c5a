//! Transactions and multi reads.

use zookeeper_client::{Acls, Client, CreateMode, Error, MultiReadResult, MultiWriteError, MultiWriteResult};

use crate::checks::{check, equal, hold, refused, Outcome};
use crate::{EPHEMERAL, PERSISTENT};

pub async fn run(client: &Client) -> Outcome {
    check("multi: all kinds succeed", succeeds(client)).await;
    check("multi: one failure undoes all, the failed part is told", fails(client)).await;
    check("multi read: each part by itself", reads(client)).await;
    Ok(())
}

async fn succeeds(client: &Client) -> Outcome {
    let mut writer = client.new_multi_writer();
    writer.add_create("/multi", b"0", PERSISTENT)?;
    writer.add_create("/multi/s-", b"", &CreateMode::PersistentSequential.with_acls(Acls::anyone_all()))?;
    writer.add_create("/multi/e", b"", EPHEMERAL)?;
    writer.add_create("/multi/c", b"", &CreateMode::Container.with_acls(Acls::anyone_all()))?;
    writer.add_set_data("/multi", b"1", Some(0))?;
    writer.add_check_version("/multi", 1)?;
    writer.add_delete("/multi/s-0000000000", None)?;
    let results = writer.commit().await?;
    equal(results.len(), 7)?;
    let MultiWriteResult::Create { path, stat } = &results[1] else { return Err("no create result".into()) };
    equal((path.as_str(), stat.version), ("/multi/s-0000000000", 0))?;
    let MultiWriteResult::SetData { stat } = &results[4] else { return Err("no setData result".into()) };
    equal(stat.version, 1)?;
    equal(client.list_children("/multi").await?.len(), 2)
}

async fn fails(client: &Client) -> Outcome {
    let mut writer = client.new_multi_writer();
    writer.add_create("/multi/b", b"", PERSISTENT)?;
    writer.add_check_version("/multi", 9)?;
    writer.add_delete("/multi/e", None)?;
    let expected = MultiWriteError::OperationFailed { index: 1, source: Error::BadVersion };
    refused(writer.commit().await, expected)?;
    equal(client.check_stat("/multi/b").await?, None)
}

async fn reads(client: &Client) -> Outcome {
    let mut reader = client.new_multi_reader();
    reader.add_get_data("/multi")?;
    reader.add_get_children("/none")?;
    reader.add_get_children("/multi/e")?;
    let results = reader.commit().await?;
    hold("data", matches!(&results[0], MultiReadResult::Data { data, .. } if data == b"1"))?;
    hold("no node", matches!(&results[1], MultiReadResult::Error { err: Error::NoNode }))?;
    hold("children", matches!(&results[2], MultiReadResult::Children { children } if children.is_empty()))
}
