//! Which machine this is: its own addresses, its name, and its place in a list of machines.
//!
//! The kernel's tables under `/proc/net` are read instead of a library: they show the addresses of
//! the network namespace this process is in, which is what a container sees as its machine.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, ToSocketAddrs, UdpSocket};

use anyhow::{Context, Result, bail};

/// What a machine knows of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Its own addresses, those of the loopback included.
    pub addresses: BTreeSet<IpAddr>,
    /// Its name.
    pub hostname: String,
    /// The address it was told to use: `--host` or `POD_IP`.
    pub given: Option<String>,
}

impl Machine {
    /// This machine; `given` is what `--host` or `POD_IP` says, if anything.
    pub fn detect(given: Option<&str>) -> Machine {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        let mut addresses = local_v4(&read("/proc/net/fib_trie"));
        addresses.extend(local_v6(&read("/proc/net/if_inet6")));
        let hostname = read("/proc/sys/kernel/hostname").trim().to_owned();
        let given = given.map(str::trim).filter(|text| !text.is_empty());
        Machine { addresses, hostname, given: given.map(str::to_owned) }
    }

    /// Whether `host`, a name or an address, is this machine. What it was told counts alone.
    ///
    /// # Errors
    /// When the name cannot be looked up.
    pub fn is(&self, host: &str) -> Result<bool> {
        if self.given.as_deref() == Some(host) {
            return Ok(true);
        }
        let addresses = resolve(host)?;
        match &self.given {
            Some(given) => {
                let own = resolve(given).context("in `--host` or `POD_IP`")?;
                Ok(addresses.iter().any(|address| own.contains(address)))
            }
            None => Ok(addresses.iter().any(|address| self.owns(*address))),
        }
    }

    /// Whether the address is one of this machine's, whatever it was told.
    pub fn owns(&self, address: IpAddr) -> bool {
        address.is_loopback() || self.addresses.contains(&address)
    }

    /// Which of the machines in `list` (names or addresses) this one is. `flags` is where the list
    /// comes from, for messages.
    ///
    /// # Errors
    /// When it is none of them, or cannot be told which; or a name cannot be looked up.
    pub fn find(&self, list: &[String], flags: &str) -> Result<usize> {
        if list.iter().all(|host| Some(host) == list.first()) && self.given.is_none() {
            // One machine: the user does not have to know what it is called, only that it is here.
            return match list.first() {
                Some(host) if !self.is(host)? => self.stranger(list, flags),
                Some(_) => Ok(0),
                None => bail!("{flags} names no machine"),
            };
        }
        let mut own = Vec::new();
        for (index, host) in list.iter().enumerate() {
            if self.is(host)? {
                own.push(index);
            }
        }
        match own.as_slice() {
            [] => self.stranger(list, flags),
            [first, rest @ ..] if rest.iter().all(|index| list[*index] == list[*first]) => {
                refuse_loopback(&list[*first], list, flags)?;
                Ok(*first)
            }
            several => {
                let names: Vec<_> = several.iter().map(|index| list[*index].as_str()).collect();
                bail!(
                    "{} of {flags} are all this machine, so which one it is cannot be told: set \
                     `POD_IP` (or `--host`) to the one it is",
                    names.join(", ")
                )
            }
        }
    }

    fn stranger(&self, list: &[String], flags: &str) -> Result<usize> {
        let told = match &self.given {
            Some(given) => format!(
                "`POD_IP` (or `--host`) says that this machine is {given}, which is not in {flags}"
            ),
            None => format!("this machine ({self}) is not in {flags}"),
        };
        bail!(
            "{told}: {}; start the command on the machines of the list, or set `POD_IP` to the \
             address under which the others reach this one",
            list.join(", ")
        )
    }

    /// The address under which others reach this machine: what it was told, else the one from which
    /// packets to `peer` leave.
    ///
    /// # Errors
    /// When there is no way to `peer`.
    pub fn towards(&self, peer: &str) -> Result<String> {
        if let Some(given) = &self.given {
            return Ok(given.clone());
        }
        for address in resolve(peer)? {
            let any: IpAddr = match address {
                IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
                IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
            };
            // Connecting a datagram socket sends nothing: it only asks for the route.
            let route = UdpSocket::bind((any, 0)).and_then(|socket| {
                socket.connect((address, 9))?;
                socket.local_addr()
            });
            if let Ok(local) = route {
                return Ok(local.ip().to_string());
            }
        }
        bail!("there is no way from this machine ({self}) to {peer}: check its network")
    }
}

impl fmt::Display for Machine {
    /// Name and addresses, without those that every machine has.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let telling = |address: &&IpAddr| match address {
            IpAddr::V4(address) => !address.is_loopback(),
            IpAddr::V6(address) => !address.is_loopback() && !is_link_local(*address),
        };
        let addresses: Vec<_> =
            self.addresses.iter().filter(telling).map(ToString::to_string).collect();
        match addresses.as_slice() {
            [] => write!(f, "`{}`, which has no address but the loopback's", self.hostname),
            addresses => write!(f, "`{}` with {}", self.hostname, addresses.join(", ")),
        }
    }
}

/// Refuses the loopback's address for one machine of several: to the others it means themselves, so
/// that all would wait for each other in vain.
fn refuse_loopback(own: &str, list: &[String], flags: &str) -> Result<()> {
    match list.iter().find(|host| !is_loopback(host)) {
        Some(other) if is_loopback(own) => bail!(
            "{own} of {flags} is the loopback, under which {other} cannot reach this machine: write \
             its address in the network, the same on all machines"
        ),
        _ => Ok(()),
    }
}

/// Whether that is how a machine calls itself. A host's own name may mean its loopback too, but
/// others look it up elsewhere.
fn is_loopback(host: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// The addresses of a name; an address is its own.
///
/// # Errors
/// When nobody knows the name.
pub fn resolve(host: &str) -> Result<Vec<IpAddr>> {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    if let Ok(address) = host.parse() {
        return Ok(vec![address]);
    }
    let found = (host, 0).to_socket_addrs();
    let found: Vec<_> = found
        .with_context(|| {
            format!("the host `{host}` cannot be looked up: write its address, or check the name")
        })?
        .map(|address| address.ip())
        .collect();
    if found.is_empty() {
        bail!("the host `{host}` has no address");
    }
    Ok(found)
}

fn is_link_local(address: Ipv6Addr) -> bool {
    address.segments()[0] & 0xffc0 == 0xfe80
}

/// Own addresses in the kernel's routing table: a leaf (`|-- 10.0.0.1`) that is followed by
/// `/32 host LOCAL`.
fn local_v4(table: &str) -> BTreeSet<IpAddr> {
    let mut leaf = None;
    let mut found = BTreeSet::new();
    for line in table.lines() {
        let line = line.trim();
        if let Some(address) = line.strip_prefix("|-- ") {
            leaf = address.parse::<Ipv4Addr>().ok();
        } else if line.starts_with("/32") && line.ends_with("LOCAL") {
            found.extend(leaf.map(IpAddr::from));
        }
    }
    found
}

/// Own addresses in the kernel's list of interfaces: 32 hexadecimal digits first.
fn local_v6(table: &str) -> BTreeSet<IpAddr> {
    let address = |line: &str| {
        let digits = line.split_whitespace().next()?;
        (digits.len() == 32).then(|| u128::from_str_radix(digits, 16).ok()).flatten()
    };
    table.lines().filter_map(address).map(|bits| Ipv6Addr::from(bits).into()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(addresses: &[&str], given: Option<&str>) -> Machine {
        Machine {
            addresses: addresses.iter().map(|text| text.parse().unwrap()).collect(),
            hostname: "box".into(),
            given: given.map(str::to_owned),
        }
    }

    fn strings(list: &[&str]) -> Vec<String> {
        list.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_kernels_tables_are_read() {
        let trie = "Local:\n  +-- 0.0.0.0/1 2 0 2\n           |-- 10.7.0.0\n              /24 link \
                    UNICAST\n           |-- 10.7.0.1\n              /32 host LOCAL\n           |-- \
                    127.0.0.0\n              /8 host LOCAL\n           |-- 127.0.0.1\n              \
                    /32 host LOCAL\n        |-- 10.7.0.255\n           /32 link BROADCAST\n";
        let found: Vec<_> = local_v4(trie).iter().map(ToString::to_string).collect();
        assert_eq!(found, ["10.7.0.1", "127.0.0.1"]);
        let six = "fe80000000000000685fc5fffe11b851 06 40 20 c0       va\n\
                   00000000000000000000000000000001 01 80 10 80       lo\nnonsense\n";
        let found: Vec<_> = local_v6(six).iter().map(ToString::to_string).collect();
        assert_eq!(found, ["::1", "fe80::685f:c5ff:fe11:b851"]);
    }

    #[test]
    fn this_machine_has_a_loopback_and_a_name() {
        let here = Machine::detect(None);
        assert!(here.owns("127.0.0.1".parse().unwrap()));
        assert!(here.is("localhost").unwrap());
        assert!(!here.hostname.is_empty());
        assert_eq!(here.towards("127.0.0.1").unwrap(), "127.0.0.1");
    }

    #[test]
    fn a_machine_is_found_by_its_addresses() {
        let here = machine(&["10.0.0.2", "192.168.0.5"], None);
        assert_eq!(here.find(&strings(&["10.0.0.1", "10.0.0.2"]), "--ips").unwrap(), 1);
        assert_eq!(here.find(&strings(&["127.0.0.1"]), "--ips").unwrap(), 0);
        assert_eq!(here.find(&strings(&["10.0.0.2", "10.0.0.2"]), "--ips").unwrap(), 0);
    }

    #[test]
    fn what_it_was_told_counts_alone() {
        let list = strings(&["10.0.0.1", "10.0.0.2"]);
        let here = machine(&["10.0.0.2"], Some("10.0.0.1"));
        assert_eq!(here.find(&list, "--ips").unwrap(), 0);
        let error = machine(&["10.0.0.2"], Some("10.0.0.9")).find(&list, "--ips").unwrap_err();
        assert_eq!(
            error.to_string(),
            "`POD_IP` (or `--host`) says that this machine is 10.0.0.9, which is not in --ips: \
             10.0.0.1, 10.0.0.2; start the command on the machines of the list, or set `POD_IP` to \
             the address under which the others reach this one"
        );
    }

    #[test]
    fn a_stranger_is_told_its_addresses_and_the_list() {
        let here = machine(&["10.0.0.7", "127.0.0.1", "::1", "fe80::1"], None);
        let error = here.find(&strings(&["10.0.0.1", "10.0.0.2"]), "--servers").unwrap_err();
        let error = error.to_string();
        assert!(error.starts_with(
            "this machine (`box` with 10.0.0.7) is not in --servers: 10.0.0.1, 10.0.0.2; start"
        ));
        assert!(here.find(&strings(&["10.0.0.1"]), "--ips").is_err());
    }

    #[test]
    fn the_loopback_is_no_address_for_others() {
        let here = machine(&["10.0.0.2", "127.0.0.1"], None);
        let error = here.find(&strings(&["127.0.0.1", "127.0.0.1", "10.0.0.9"]), "--servers");
        assert_eq!(
            error.unwrap_err().to_string(),
            "127.0.0.1 of --servers is the loopback, under which 10.0.0.9 cannot reach this \
             machine: write its address in the network, the same on all machines"
        );
        // Several machines on one, as tests have them.
        let here = machine(&[], Some("127.0.0.2"));
        assert_eq!(here.find(&strings(&["127.0.0.1", "127.0.0.2"]), "--ips").unwrap(), 1);
    }

    #[test]
    fn two_names_of_one_machine_are_not_guessed_between() {
        let here = machine(&["10.0.0.1", "172.17.0.1"], None);
        let error = here.find(&strings(&["10.0.0.1", "172.17.0.1"]), "--ips").unwrap_err();
        assert!(error.to_string().contains("are all this machine"), "{error}");
    }

    #[test]
    fn an_unknown_name_is_named() {
        let error = resolve("no-such-host.invalid").unwrap_err().to_string();
        assert!(error.contains("`no-such-host.invalid` cannot be looked up"), "{error}");
        assert_eq!(resolve("[::1]").unwrap(), [IpAddr::from(Ipv6Addr::LOCALHOST)]);
    }
}
