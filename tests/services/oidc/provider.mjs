// A provider of OpenID Connect for tests, by oidc-provider: node provider.mjs SETTINGS.json
//
// People sign in with their name alone. What happens to a provider in a year is told by POST /control/…: its keys are
// rotated, people get other groups, it is slow, it tells a logout.

import { generateKeyPairSync, randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import Provider from 'oidc-provider';

const settings = JSON.parse(readFileSync(process.argv[2], 'utf8'));
const address = new URL(settings.issuer);
let people = settings.people;
let slowMilliseconds = 0;
let keys = [newKey('RS256')];
let provider = made();

function newKey(alg) {
  const { privateKey } =
    alg === 'EdDSA' ? generateKeyPairSync('ed25519')
    : alg === 'ES256' ? generateKeyPairSync('ec', { namedCurve: 'P-256' })
    : generateKeyPairSync('rsa', { modulusLength: 2048 });
  return { ...privateKey.export({ format: 'jwk' }), kid: randomUUID(), use: 'sig', alg };
}

function made() {
  const alg = keys[0].alg;
  return new Provider(settings.issuer, {
    clients: settings.clients.map((client) => ({ id_token_signed_response_alg: alg, ...client })),
    jwks: { keys },
    cookies: { keys: ['a key of tests'] },
    findAccount: (_ctx, id) =>
      people[id] && { accountId: id, claims: async () => ({ sub: id, ...people[id] }) },
    claims: {
      openid: ['sub'], profile: ['name', 'preferred_username'], email: ['email', 'email_verified'], groups: ['groups'],
    },
    scopes: ['openid', 'offline_access', 'profile', 'email', 'groups'],
    conformIdTokenClaims: settings.groups_by_userinfo ?? true,
    enabledJWA: { idTokenSigningAlgValues: ['RS256', 'ES256', 'EdDSA'] },
    pkce: { required: () => true },
    features: {
      devInteractions: { enabled: false },
      backchannelLogout: { enabled: true },
      clientCredentials: { enabled: true },
      deviceFlow: { enabled: true },
      // Access tokens of programs are JWTs for this audience (RFC 9068).
      resourceIndicators: {
        enabled: Boolean(settings.audience),
        defaultResource: () => settings.audience,
        useGrantedResource: () => true,
        getResourceServerInfo: () => ({
          scope: '', audience: settings.audience, accessTokenFormat: 'jwt', jwt: { sign: { alg } },
        }),
      },
      ...settings.features,
    },
    interactions: { url: (_ctx, interaction) => `/interaction/${interaction.uid}` },
    loadExistingGrant: async (ctx) => {
      const { client, session, provider: own } = ctx.oidc;
      const known = session.grantIdFor(client.clientId);
      if (known) return own.Grant.find(known);
      const grant = new own.Grant({ clientId: client.clientId, accountId: session.accountId });
      grant.addOIDCScope('openid profile email groups');
      await grant.save();
      return grant;
    },
    ttl: {
      AccessToken: 600, AuthorizationCode: 60, ClientCredentials: 600, DeviceCode: 600, Grant: 3600, IdToken: 600,
      Interaction: 600, Session: 3600,
    },
  });
}

async function body(request) {
  const pieces = [];
  for await (const piece of request) pieces.push(piece);
  return Buffer.concat(pieces).toString();
}

const CONTROLS = {
  rotate: ({ alg = 'RS256', keep = true }) => {
    keys = [newKey(alg), ...(keep ? keys : [])];
    provider = made();
  },
  people: (given) => { people = given; },
  slow: ({ seconds }) => { slowMilliseconds = seconds * 1000; },
  logout: async ({ client, subject, session }) => {
    await (await provider.Client.find(client)).backchannelLogout(subject, session);
  },
};

async function interaction(request, response) {
  if (request.method !== 'POST') {
    const { params } = await provider.interactionDetails(request, response);
    response.setHeader('content-type', 'text/html; charset=utf-8');
    response.end(`<!doctype html><html lang="en"><title>The provider</title><h1>The provider</h1>
<p>${params.client_id.replace(/\W/g, '')} asks who you are.</p>
<form method="post"><label>Name <input name="login" autofocus></label> <button>Continue</button></form></html>`);
    return;
  }
  const login = new URLSearchParams(await body(request)).get('login');
  const id = Object.keys(people).find((each) => people[each].preferred_username === login);
  const result = id ? { login: { accountId: id } } : { error: 'access_denied', error_description: 'nobody has this name' };
  await provider.interactionFinished(request, response, result, { mergeWithLastSubmission: false });
}

createServer(async (request, response) => {
  try {
    const path = new URL(request.url, settings.issuer).pathname;
    if (path.startsWith('/control/')) {
      const said = await CONTROLS[path.slice('/control/'.length)](JSON.parse((await body(request)) || '{}'));
      response.end(JSON.stringify(said ?? {}));
      return;
    }
    if (slowMilliseconds) await sleep(slowMilliseconds);
    if (path.startsWith('/interaction/')) await interaction(request, response);
    else await provider.callback()(request, response);
  } catch (error) {
    console.error(error);
    response.statusCode = 500;
    response.end(String(error));
  }
}).listen(Number(address.port), address.hostname);
