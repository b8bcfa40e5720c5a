//! Five hundred tests with a server each, as a project has them that keeps its state in ZooKeeper: together they take
//! seconds, and none sees anything of another.

use std::time::Duration;

use zoolet::{Lock, SessionState};

use crate::common::test_server;

macro_rules! hundreds {
    ($($module:ident)*) => {
        $(mod $module {
            hundreds! { @tests
                t00 t01 t02 t03 t04 t05 t06 t07 t08 t09 t10 t11 t12 t13 t14 t15 t16 t17 t18 t19 t20
                t21 t22 t23 t24 t25 t26 t27 t28 t29 t30 t31 t32 t33 t34 t35 t36 t37 t38 t39 t40 t41
                t42 t43 t44 t45 t46 t47 t48 t49 t50 t51 t52 t53 t54 t55 t56 t57 t58 t59 t60 t61 t62
                t63 t64 t65 t66 t67 t68 t69 t70 t71 t72 t73 t74 t75 t76 t77 t78 t79 t80 t81 t82 t83
                t84 t85 t86 t87 t88 t89 t90 t91 t92 t93 t94 t95 t96 t97 t98 t99
            }
        })*
    };
    (@tests $($name:ident)*) => {
        $(#[tokio::test]
        async fn $name() {
            super::a_leader_is_replaced_when_its_session_expires(concat!(module_path!(), stringify!($name))).await;
        })*
    };
}

hundreds! { first second third fourth fifth }

async fn a_leader_is_replaced_when_its_session_expires(test: &'static str) {
    let zk = test_server().znode("/app/test", test).start().await.expect("a server");
    let (one, two) = (zk.client().await, zk.client().await);
    let leader = Lock::new(&one, "/app/leader").acquire().await.expect("no other client wants it");
    let next = Lock::new(&two, "/app/leader");
    let mut next = tokio::spawn(async move { next.acquire().await });
    zk.advance(Duration::from_secs(60)).await.expect("a manual clock");
    assert!(!next.is_finished(), "the leader's session exists");

    zk.expire_session(one.session_id()).await.expect("it exists");
    let second = (&mut next).await.expect("no panic").expect("its turn");
    assert!(second.token() > leader.token());
    assert_eq!(one.state(), SessionState::Expired);
    assert_eq!(zk.get("/app/test").expect("from the start").text(), test);
    assert_eq!(zk.children("/app"), ["leader", "test"], "of this test, and of no other");
}
