//! Queries the OSV service: the batch API for the advisories of packages, then each advisory once.
//! It caches advisories by ID and modification time. It does not read exports.
//!
//! Source: OSV's API documentation, "POST /v1/querybatch" and "GET /v1/vulns/{id}".

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;

use super::advisory::is_id;
use super::{Advisory, FoundAdvisories, Hit, OsvError, Package};
use crate::sources::{Fetcher, SourceError, shown_url};
use crate::text::visible;

/// Default address of the service; `ROCMRPM_OSV_URL` overrides it.
pub const ADDRESS: &str = "https://api.osv.dev";

/// Maximum number of packages per request.
const AT_ONCE: usize = 1000;

/// Maximum number of pages in a response. The longest real responses have a few.
const MAX_PAGES: usize = 100;

/// The OSV service.
pub struct Service<'a> {
    /// The address without a path.
    pub address: &'a str,
    /// Timeout for one response.
    pub limit: Duration,
}

#[derive(Deserialize)]
pub(super) struct Batch {
    results: Vec<Option<Listed>>,
}

#[derive(Default, Deserialize)]
struct Listed {
    vulns: Option<Vec<Summary>>,
    next_page_token: Option<String>,
}

#[derive(Deserialize)]
struct Summary {
    id: String,
    modified: Option<String>,
}

/// An advisory's ID and the time of its last change.
type Stamp = (String, Option<String>);

impl Service<'_> {
    /// Returns the advisories that affect the packages.
    pub fn ask(
        &self,
        packages: &[Package],
        fetcher: &Fetcher<'_>,
    ) -> Result<FoundAdvisories, OsvError> {
        let listed = self.list(packages, fetcher)?;
        let stamps: BTreeSet<&Stamp> = listed.iter().flatten().collect();
        let advisories = self.advisories(&stamps.into_iter().collect::<Vec<_>>(), fetcher)?;
        let hits = packages.iter().zip(&listed).map(|(package, stamps)| {
            let found = stamps.iter().filter_map(|(id, _)| advisories.get(id.as_str()));
            // Trust the service's decision regardless of how we evaluate the ranges.
            let hit = |advisory: &Advisory| Hit {
                fixed: advisory.fixed(package),
                advisory: advisory.clone(),
            };
            found.filter(|advisory| !advisory.withdrawn).map(hit).collect()
        });
        Ok(FoundAdvisories { hits: hits.collect(), unclear: Vec::new() })
    }

    /// Returns the advisory stamps for each package.
    fn list(
        &self,
        packages: &[Package],
        fetcher: &Fetcher<'_>,
    ) -> Result<Vec<Vec<Stamp>>, OsvError> {
        let url = self.url("/v1/querybatch");
        let mut listed = vec![Vec::new(); packages.len()];
        let mut open: Vec<(usize, Option<String>)> =
            (0..packages.len()).map(|at| (at, None)).collect();
        let mut pages = 0;
        while !open.is_empty() {
            pages += 1;
            if pages > MAX_PAGES {
                return Err(self.wrong(&url, format!("it has more than {MAX_PAGES} pages")));
            }
            let mut next = Vec::new();
            for some in open.chunks(AT_ONCE) {
                let queries =
                    some.iter().map(|(at, token)| query(&packages[*at], token.as_deref()));
                let body = json!({ "queries": queries.collect::<Vec<_>>() }).to_string();
                let bytes = fetcher
                    .post_json(&url, &body, self.limit)
                    .map_err(|error| self.unreachable(error))?;
                let batch: Batch = serde_json::from_slice(&bytes).map_err(|error| {
                    self.wrong(&url, format!("it is not a list of results: {error}"))
                })?;
                if batch.results.len() != some.len() {
                    let wrong = format!(
                        "it has {} results for {} queries",
                        batch.results.len(),
                        some.len()
                    );
                    return Err(self.wrong(&url, wrong));
                }
                for ((at, _), result) in some.iter().zip(batch.results) {
                    let result = result.unwrap_or_default();
                    for Summary { id, modified } in result.vulns.unwrap_or_default() {
                        if !is_id(&id) {
                            return Err(
                                self.wrong(&url, format!("`{}` is not a valid ID", visible(&id)))
                            );
                        }
                        listed[*at].push((id, modified));
                    }
                    next.extend(
                        result.next_page_token.filter(|t| !t.is_empty()).map(|t| (*at, Some(t))),
                    );
                }
            }
            open = next;
        }
        Ok(listed)
    }

    /// Returns advisories by ID, from the cache or the service.
    fn advisories<'s>(
        &self,
        stamps: &[&'s Stamp],
        fetcher: &Fetcher<'_>,
    ) -> Result<BTreeMap<&'s str, Advisory>, OsvError> {
        let mut found = BTreeMap::new();
        let mut missing = Vec::new();
        for stamp in stamps {
            let kept = match self.recipe(stamp) {
                Some(recipe) => {
                    fetcher.remembered(&recipe).map_err(|error| OsvError::Cache(Box::new(error)))?
                }
                None => None,
            };
            match kept.and_then(|text| Advisory::read(text.as_bytes()).ok()) {
                Some(advisory) => drop(found.insert(stamp.0.as_str(), advisory)),
                None => missing.push(*stamp),
            }
        }
        let urls: Vec<String> =
            missing.iter().map(|(id, _)| self.url(&format!("/v1/vulns/{id}"))).collect();
        let answers =
            fetcher.get_all(&urls, self.limit).map_err(|error| self.unreachable(error))?;
        for ((stamp, url), bytes) in missing.into_iter().zip(urls).zip(answers) {
            let advisory = Advisory::read(&bytes).map_err(|wrong| self.wrong(&url, wrong))?;
            if advisory.id != stamp.0 {
                return Err(self.wrong(&url, format!("it is about `{}`", advisory.id)));
            }
            if let (Some(recipe), Ok(text)) = (self.recipe(stamp), String::from_utf8(bytes)) {
                fetcher
                    .remember(&recipe, &text)
                    .map_err(|error| OsvError::Cache(Box::new(error)))?;
            }
            found.insert(stamp.0.as_str(), advisory);
        }
        Ok(found)
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.address.trim_end_matches('/'))
    }

    /// Returns the cache key of an advisory, or `None` if it has no modification time.
    fn recipe(&self, (id, modified): &Stamp) -> Option<String> {
        let modified = modified.as_ref()?;
        Some(format!("osv advisory 1\n{}\n{id}\n{modified}\n", self.address))
    }

    fn wrong(&self, url: &str, wrong: String) -> OsvError {
        OsvError::Answer { url: shown_url(url), wrong }
    }

    fn unreachable(&self, source: SourceError) -> OsvError {
        OsvError::Unreachable { address: shown_url(self.address), source: Box::new(source) }
    }
}

fn query(package: &Package, page_token: Option<&str>) -> serde_json::Value {
    let mut query = json!({
        "package": { "ecosystem": package.ecosystem.name(), "name": package.name },
        "version": package.version,
    });
    if let Some(token) = page_token {
        query["page_token"] = token.into();
    }
    query
}
