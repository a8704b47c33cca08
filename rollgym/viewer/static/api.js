// Requests to the server. Responses are JSON, or text where text is requested.

const TIME_LIMIT = 120_000;

// An error of the server or the connection. `status` is 0 if there was no response.
class ApiError extends Error {
  constructor(message, status) {
    super(message);
    this.name = "ApiError";
    this.status = status;
  }
}

// The JSON at a path. `params`: URLSearchParams, or an object whose values may be lists; null and
// "" are left out. Throws ApiError, or the reason of an aborted `signal`.
export async function get(path, params = null, { signal = null } = {}) {
  const response = await send(withQuery(path, params), signal);
  try {
    return await response.json();
  } catch (error) {
    throw failure(error, signal);
  }
}

// The whole text at a path.
export async function text(path, params = null, { signal = null } = {}) {
  const response = await send(withQuery(path, params), signal);
  try {
    return await response.text();
  } catch (error) {
    throw failure(error, signal);
  }
}

export function withQuery(path, params) {
  const query = queryOf(params).toString();
  return query ? `${path}?${query}` : path;
}

// The paths of one source.
export function source(id) {
  const base = `/api/s/${encodeURIComponent(id)}`;
  const file = (kind, path) => `${base}/${kind}/${path.split("/").map(encodeURIComponent).join("/")}`;
  const rollout = (entry) => `${base}/rollouts/${encodeURIComponent(entry)}`;
  return {
    base,
    overview: `${base}/overview`,
    facets: `${base}/facets`,
    tasks: `${base}/tasks`,
    rollouts: `${base}/rollouts`,
    monitor: `${base}/monitor`,
    export: `${base}/export.jsonl`,
    rollout,
    turns: (entry) => `${rollout(entry)}/turns`,
    tokens: (entry) => `${rollout(entry)}/tokens`,
    steps: (entry) => `${rollout(entry)}/steps`,
    neighbours: (entry) => `${rollout(entry)}/neighbours`,
    raw: (entry) => `${rollout(entry)}/raw`,
    text: (entry) => `${rollout(entry)}/text`,
    find: (entry) => `${rollout(entry)}/find`,
    picture: (entry) => `${rollout(entry)}/picture`,
    page: (entry) => `${rollout(entry)}/page.html`,
    repeats: (task) => `${base}/tasks/${encodeURIComponent(task)}/repeats`,
    file: (path) => file("pictures", path),
    har: (path) => file("har", path),
  };
}

function queryOf(params) {
  if (params instanceof URLSearchParams) return params;
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(params ?? {})) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== null && one !== undefined && one !== "") query.append(name, one);
    }
  }
  return query;
}

async function send(url, signal) {
  const limit = AbortSignal.timeout(TIME_LIMIT);
  let response;
  try {
    response = await fetch(url, {
      signal: signal ? AbortSignal.any([signal, limit]) : limit,
      headers: { Accept: "application/json" },
      cache: "no-cache",
    });
  } catch (error) {
    throw failure(error, signal);
  }
  if (!response.ok) throw new ApiError(await words(response), response.status);
  return response;
}

async function words(response) {
  try {
    const { error } = await response.json();
    if (typeof error === "string" && error) return error;
  } catch {
    // Not JSON: only the status is known.
  }
  return `The server responded with status ${response.status}.`;
}

function failure(error, signal) {
  if (signal?.aborted) return error;
  if (error.name === "TimeoutError") {
    return new ApiError(`The server did not respond within ${TIME_LIMIT / 1000} seconds.`, 0);
  }
  return new ApiError("Cannot reach the viewer's server. Is it still running?", 0);
}
