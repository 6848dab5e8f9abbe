//! The table of routes, below `/api/v1`. `docs/openapi.json` describes the same routes; a test compares both.

use crate::reply::Refusal;
use crate::request::{
    CheckQuery, CompleteQuery, DumpBody, Given, PacketsQuery, Part, QuestionBody, Request, RowsQuery,
    TimelineQuery, TriggerBody, filter,
};
use axum::http::Method;

/// Before the paths of all routes.
pub(crate) const BASE: &str = "/api/v1";

/// The description of the API, in the form of OpenAPI 3.1.
pub const OPENAPI: &str = include_str!("../../../docs/openapi.json");

/// What a request costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cost {
    /// Milliseconds.
    Short,
    /// Packets of the past are read: few at a time.
    Query,
    /// As `Query`, and the answer is sent meanwhile.
    Stream,
}

/// How a route answers.
#[derive(Clone, Copy)]
pub(crate) enum Answer {
    /// The service does.
    Service(Cost, fn(&Given<'_>) -> Result<Request, Refusal>),
    /// The stream of events.
    Events,
    /// The description of the API.
    Openapi,
}

/// A route.
pub(crate) struct Route {
    pub method: Method,
    /// The path below [`BASE`].
    pub path: &'static str,
    pub answer: Answer,
}

const fn route(
    method: Method,
    path: &'static str,
    cost: Cost,
    read: fn(&Given<'_>) -> Result<Request, Refusal>,
) -> Route {
    Route { method, path, answer: Answer::Service(cost, read) }
}

/// All routes.
pub(crate) static ROUTES: &[Route] = &[
    route(Method::GET, "/status", Cost::Short, |given| given.query::<Nothing>().map(|_| Request::Status)),
    route(Method::GET, "/timeline", Cost::Short, |given| given.query::<TimelineQuery>()?.request()),
    route(Method::GET, "/flows", Cost::Query, |given| given.query::<RowsQuery>()?.request("flows".into())),
    route(Method::GET, "/rows/{log}", Cost::Query, |given| {
        given.query::<RowsQuery>()?.request(given.name()?)
    }),
    route(Method::GET, "/aggregate", Cost::Query, |given| {
        given.query::<RowsQuery>()?.request("aggregate".into())
    }),
    route(Method::GET, "/packets", Cost::Stream, |given| {
        let (filter, span, uid) = given.query::<PacketsQuery>()?.parts()?;
        Ok(match uid {
            Some(uid) => Request::Connection { uid, part: Part::Packets, filter, span },
            None => Request::Packets { filter, span },
        })
    }),
    route(Method::GET, "/flows/{uid}/packets", Cost::Stream, |given| connection(given, Part::Packets)),
    route(Method::GET, "/flows/{uid}/streams", Cost::Query, |given| connection(given, Part::Streams)),
    route(Method::GET, "/flows/{uid}/sessions", Cost::Query, |given| connection(given, Part::Sessions)),
    route(Method::GET, "/triggers", Cost::Short, |_| Ok(Request::Triggers)),
    route(Method::POST, "/triggers", Cost::Short, |given| {
        Ok(Request::AddTrigger { filter: filter(given.json::<TriggerBody>()?.filter)? })
    }),
    route(Method::DELETE, "/triggers/{id}", Cost::Short, |given| Ok(Request::RemoveTrigger(given.number()?))),
    route(Method::GET, "/dumps", Cost::Short, |_| Ok(Request::Dumps)),
    route(Method::POST, "/dumps", Cost::Short, |given| given.json::<DumpBody>()?.request()),
    route(Method::GET, "/dumps/{name}", Cost::Stream, |given| Ok(Request::Dump(given.name()?))),
    route(Method::DELETE, "/dumps/{name}", Cost::Short, |given| Ok(Request::EndDump(given.name()?))),
    route(Method::GET, "/questions", Cost::Short, |_| Ok(Request::Questions)),
    route(Method::POST, "/questions", Cost::Short, |given| {
        let QuestionBody { ask, filter: text } = given.json()?;
        Ok(Request::AddQuestion { ask: filter(ask)?, filter: filter(text)? })
    }),
    route(Method::DELETE, "/questions/{id}", Cost::Short, |given| {
        Ok(Request::RemoveQuestion(given.number()?))
    }),
    route(Method::GET, "/check", Cost::Short, |given| {
        Ok(Request::Check(filter(given.query::<CheckQuery>()?.filter)?))
    }),
    route(Method::GET, "/complete", Cost::Short, |given| {
        let CompleteQuery { filter: text, at } = given.query()?;
        let at = at.unwrap_or(text.len());
        Ok(Request::Complete { filter: filter(text)?, at })
    }),
    Route { method: Method::GET, path: "/events", answer: Answer::Events },
    Route { method: Method::GET, path: "/openapi.json", answer: Answer::Openapi },
];

/// A query without values.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

fn connection(given: &Given<'_>, part: Part) -> Result<Request, Refusal> {
    let (filter, span, uid) = given.query::<PacketsQuery>()?.parts()?;
    match uid {
        Some(_) => Err(Refusal::bad("the path already names the connection: leave `uid` out")),
        None => Ok(Request::Connection { uid: given.name()?, part, filter, span }),
    }
}

/// The method and the path of each route, for tests of those who document them.
pub fn paths() -> impl Iterator<Item = (&'static str, String)> {
    ROUTES.iter().map(|route| (method_name(&route.method), format!("{BASE}{}", route.path)))
}

fn method_name(method: &Method) -> &'static str {
    match *method {
        Method::POST => "post",
        Method::DELETE => "delete",
        _ => "get",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;
    use std::collections::BTreeSet;

    #[test]
    fn the_description_has_each_route_and_no_other() {
        let described: Value = serde_json::from_str(OPENAPI).expect("JSON");
        let mut all = BTreeSet::new();
        for (path, operations) in described["paths"].as_object().expect("paths") {
            let methods = operations.as_object().expect("operations").keys();
            let methods =
                methods.filter(|name| ["get", "post", "delete", "put", "patch"].contains(&name.as_str()));
            all.extend(methods.map(|method| (method.clone(), path.clone())));
        }
        let own: BTreeSet<_> = paths().map(|(method, path)| (method.to_string(), path)).collect();
        assert_eq!(all, own);
    }
}
