// Leads what node itself does not: global fetch, and http and https without an agent of their own, go through the proxy
// that HTTP_PROXY and HTTPS_PROXY (or their lower-case forms, which count first) name, as curl and pip do without it.
//
// Required before the program where a run has egress (NODE_OPTIONS, image.toml); without those variables it does
// nothing. Everything goes through a tunnel (CONNECT), http:// too. A refusal of the proxy is the error of the request,
// with its status line as the message and `statusCode` and `statusMessage` beside it. NO_PROXY holds `*`, or names,
// addresses and domains, with a port or without.
//
// What is left alone, and has no way out where only the proxy has one: an agent or dispatcher that the program made
// itself, `agent: false`, sockets of `net`, `tls` and `http2`, and changes of the variables after the start. A caller who
// sets NODE_OPTIONS replaces what loads this: `--require=/usr/lib/belljar/proxy.js` has to stand in it again.
'use strict';

(() => {
  const named = (name) => process.env[name.toLowerCase()] || process.env[name];
  const proxies = { 'http:': named('HTTP_PROXY'), 'https:': named('HTTPS_PROXY') };
  for (const [scheme, text] of Object.entries(proxies)) {
    const url = text && URL.canParse(text) ? new URL(text) : null;
    proxies[scheme] = url?.protocol === 'http:' ? url : null;
  }
  if (!proxies['http:'] && !proxies['https:']) return;

  const http = require('http');
  const https = require('https');
  const net = require('net');
  const tls = require('tls');

  const DEFAULT_PORTS = { 'http:': 80, 'https:': 443 };
  const bare = (host) => host.toLowerCase().replace(/^\[(.*)\]$/, '$1').replace(/\.$/, '');

  // What goes straight there: [host or domain, port or undefined].
  const straight = (named('NO_PROXY') ?? '').split(/[\s,]+/).filter(Boolean).map((entry) => {
    const [, host, port] = /^([^:]+|\[.*\]):(\d+)$/.exec(entry) ?? [null, entry];
    return [bare(host).replace(/^\*?\./, ''), port && Number(port)];
  });

  // The proxy for a host, or null where the way is straight.
  function proxyFor(scheme, host, port) {
    const proxy = proxies[scheme];
    if (!proxy) return null;
    // Whoever speaks to the proxy by itself is not led through it again.
    if (bare(proxy.hostname) === host && Number(proxy.port || 80) === port) return null;
    const goes = ([name, only]) => (name === '*' || host === name || host.endsWith(`.${name}`))
      && (only === undefined || only === port);
    return straight.some(goes) ? null : proxy;
  }

  // Calls back once a socket is there, or is not.
  function settle(socket, event, callback) {
    socket.once('error', callback);
    socket.once(event, () => {
      socket.off('error', callback);
      callback(null, socket);
    });
  }

  // Opens a tunnel and calls back with an error or its socket.
  function tunnel(proxy, host, port, callback) {
    const target = `${host.includes(':') ? `[${host}]` : host}:${port}`;
    const request = http.request({
      host: bare(proxy.hostname),
      port: proxy.port || 80,
      method: 'CONNECT',
      path: target,
      headers: { host: target },
      agent: false,
    });
    request.once('error', callback);
    request.once('connect', (response, socket, head) => {
      request.off('error', callback);
      if (response.statusCode === 200) {
        if (head.length > 0) socket.unshift(head);
        callback(null, socket);
        return;
      }
      socket.on('error', () => {}).destroy();
      const { statusCode, statusMessage } = response;
      const error = new Error(`${statusCode} ${statusMessage}: the proxy opens no tunnel to ${target}`);
      callback(Object.assign(error, { code: 'ERR_PROXY_TUNNEL', statusCode, statusMessage }));
    });
    request.end();
  }

  // The global agents stay what they are; only how they connect changes, and an agent that is made later has the old way.
  for (const [scheme, agent] of [['http:', http.globalAgent], ['https:', https.globalAgent]]) {
    const connect = agent.createConnection;
    agent.createConnection = function createConnection(options, callback) {
      const host = bare(options.host ?? 'localhost');
      const port = Number(options.port);
      const proxy = options.socketPath ? null : proxyFor(scheme, host, port);
      if (!proxy) return connect.call(this, options, callback);
      tunnel(proxy, host, port, (error, socket) => {
        if (error) return callback(error);
        if (scheme === 'https:') return callback(null, connect.call(this, { ...options, socket }));
        if (options.timeout) socket.setTimeout(options.timeout);
        return callback(null, socket);
      });
      return undefined;
    };
  }

  // Loads what is behind fetch, whose dispatcher is then there, and of the class that fits it.
  void globalThis.Response;
  const DISPATCHER = Symbol.for('undici.globalDispatcher.1');
  const Agent = globalThis[DISPATCHER]?.constructor;
  if (!Agent) return;
  const dispatcher = new Agent({
    connect({ hostname, port: given, protocol, servername }, callback) {
      const host = bare(hostname);
      const port = Number(given || DEFAULT_PORTS[protocol]);
      const proxy = proxyFor(protocol, host, port);
      const opened = (error, socket) => {
        if (error || protocol !== 'https:') return callback(error, socket);
        const name = net.isIP(host) ? '' : servername || host;
        const secure = tls.connect({ socket, host, servername: name, ALPNProtocols: ['http/1.1'] });
        return settle(secure, 'secureConnect', callback);
      };
      if (proxy) tunnel(proxy, host, port, opened);
      else settle(net.connect({ host, port }), 'connect', opened);
    },
  });
  // A program that sets a dispatcher of its own replaces this one.
  Object.defineProperty(globalThis, DISPATCHER, {
    value: dispatcher, writable: true, enumerable: false, configurable: false,
  });
})();
delete require.cache[__filename];
