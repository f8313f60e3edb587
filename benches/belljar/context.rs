//! What the rows share: the API, the configurations of the servers, and what belljar's containers are made of.

use std::{cell::RefCell, collections::HashMap, rc::Rc};

use crate::{api::Api, blueprint::Blueprint, machine, program::Language};

/// Given to each row.
pub(crate) struct Context {
    /// The Docker API without belljar.
    pub(crate) api: Api,
    /// Whether this build of belljar has a pool.
    pub(crate) has_pool: bool,
    blueprints: RefCell<HashMap<(&'static str, Runtime), Rc<Blueprint>>>,
}

/// What starts the containers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Runtime {
    /// The daemon's default.
    Default,
    /// gVisor.
    Runsc,
}

impl Runtime {
    /// The part of the configuration that asks for it.
    pub(crate) fn config(self) -> &'static str {
        match self {
            Self::Default => "",
            Self::Runsc => "[docker]\nruntime = \"runsc\"\n",
        }
    }
}

impl Context {
    pub(crate) fn new() -> anyhow::Result<Self> {
        Ok(Self {
            api: Api::connect()?,
            has_pool: machine::configures("pool")?,
            blueprints: RefCell::default(),
        })
    }

    /// A configuration whose server makes each container when it is asked for.
    pub(crate) fn cold(&self) -> &'static str {
        if self.has_pool {
            "[pool]\nmax = 0\n"
        } else {
            ""
        }
    }

    /// What belljar makes of a container for this language; read back once.
    pub(crate) fn blueprint(
        &self,
        language: &Language,
        runtime: Runtime,
    ) -> anyhow::Result<Rc<Blueprint>> {
        let key = (language.name, runtime);
        if let Some(known) = self.blueprints.borrow().get(&key) {
            return Ok(Rc::clone(known));
        }
        let config = format!("{}{}", self.cold(), runtime.config());
        let read = Rc::new(Blueprint::read(&config, language)?);
        self.blueprints.borrow_mut().insert(key, Rc::clone(&read));
        Ok(read)
    }
}
