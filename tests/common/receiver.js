// A receiver of profiles by gRPC (node's own HTTP/2, framing as in gRPC's PROTOCOL-HTTP2): prints its port, keeps each
// message as a file of the folder that it is given, and refuses the first call as a store that is starting would.
'use strict';
const fs = require('node:fs');
const http2 = require('node:http2');
const path = require('node:path');

const [, , folder, service] = process.argv;
const UNAVAILABLE = 14;
const INVALID = 3;
let calls = 0;

/** What is wrong with a call; its message where nothing is. */
function message(headers, body) {
  const wants = { ':method': 'POST', ':path': service, 'te': 'trailers' };
  for (const name in wants) {
    if (headers[name] !== wants[name]) return `${name} is ${headers[name]}`;
  }
  if (!/^application\/grpc(\+proto)?$/.test(headers['content-type'])) return `content-type ${headers['content-type']}`;
  if (body.length < 5 || body[0] !== 0 || body.readUInt32BE(1) !== body.length - 5) return `a frame of ${body.length} bytes`;
  return body.subarray(5);
}

const server = http2.createServer();
server.on('stream', (stream, headers) => {
  const parts = [];
  stream.on('data', (part) => parts.push(part));
  stream.on('end', () => {
    const call = calls++;
    const taken = call === 0 ? 'not yet' : message(headers, Buffer.concat(parts));
    const refused = typeof taken === 'string';
    const status = !refused ? 0 : call === 0 ? UNAVAILABLE : INVALID;
    if (!refused) fs.writeFileSync(path.join(folder, `${String(call).padStart(6, '0')}.otlp`), taken);
    stream.respond({ ':status': 200, 'content-type': 'application/grpc' }, { waitForTrailers: true });
    stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': `${status}`, 'grpc-message': refused ? taken : '' }));
    // An empty message: five bytes of frame, none of content.
    stream.end(refused ? undefined : Buffer.alloc(5));
  });
});
server.listen(0, '127.0.0.1', () => console.log(server.address().port));
