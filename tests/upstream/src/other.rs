//! Servers of protocols that are no HTTP: a TCP port that gives back what it gets, a UDP port that keeps it.

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use tokio::{
    io::{copy, split},
    net::UdpSocket,
    task::JoinSet,
};

/// The most datagrams that are kept.
const MAX_DATAGRAMS: usize = 1024;
/// The longest datagram there can be.
const MAX_DATAGRAM_BYTES: usize = 65_535;

/// A TCP port that gives back what it gets.
#[derive(Debug)]
pub struct TcpEcho {
    address: SocketAddr,
    connections: Arc<AtomicU64>,
    _tasks: JoinSet<()>,
}

impl TcpEcho {
    /// Starts one.
    ///
    /// # Panics
    /// Where there is no port to be had.
    pub async fn start() -> Self {
        let (listener, address) = crate::listen().await;
        let connections = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&connections);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut peers = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::SeqCst);
                peers.spawn(async move {
                    let (mut from, mut to) = split(stream);
                    let _ = copy(&mut from, &mut to).await;
                });
            }
        });
        Self {
            address,
            connections,
            _tasks: tasks,
        }
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// How many connections were opened to it.
    #[must_use]
    pub fn connections(&self) -> u64 {
        self.connections.load(Ordering::SeqCst)
    }
}

/// A UDP port that keeps what it gets and answers nothing.
#[derive(Debug)]
pub struct UdpSink {
    address: SocketAddr,
    datagrams: Arc<Mutex<Vec<Vec<u8>>>>,
    _tasks: JoinSet<()>,
}

impl UdpSink {
    /// Starts one.
    ///
    /// # Panics
    /// Where there is no port to be had.
    pub async fn start() -> Self {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = socket.local_addr().unwrap();
        let datagrams = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&datagrams);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut buffer = vec![0; MAX_DATAGRAM_BYTES];
            while let Ok(count) = socket.recv(&mut buffer).await {
                let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                if kept.len() < MAX_DATAGRAMS {
                    kept.push(buffer[..count].to_vec());
                }
            }
        });
        Self {
            address,
            datagrams,
            _tasks: tasks,
        }
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What it got, oldest first.
    #[must_use]
    pub fn datagrams(&self) -> Vec<Vec<u8>> {
        self.datagrams
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}
