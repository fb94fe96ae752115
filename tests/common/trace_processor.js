// Answers SQL queries on a trace with Perfetto's trace processor, as its browser UI runs it in a worker.
//
//   node trace_processor.js DIRECTORY TRACE QUERY...
//
// DIRECTORY has engine_bundle.js and its .wasm files. Prints one line of JSON for each query: the list of its rows, each
// the list of its values. Fails if the trace or a query has an error. The messages are those of
// protos/perfetto/trace_processor/trace_processor.proto.
"use strict";
const fs = require("node:fs");
const path = require("node:path");
const vm = require("node:vm");

const [directory, trace, ...queries] = process.argv.slice(2);
const [APPEND, FINALIZE, QUERY] = [1, 2, 3];
const [APPEND_DATA, QUERY_ARGS, APPEND_RESULT, QUERY_RESULT, FINALIZE_RESULT] = [101, 103, 201, 203, 212];

function fail(text) {
  console.error(text);
  process.exit(1);
}

function varint(number) {
  const bytes = [];
  for (; number > 127; number = Math.floor(number / 128)) bytes.push((number % 128) | 128);
  bytes.push(number);
  return Buffer.from(bytes);
}

const field = (id, bytes) => Buffer.concat([varint(id * 8 + 2), varint(bytes.length), bytes]);
const number = (id, value) => Buffer.concat([varint(id * 8), varint(value)]);

function* varints(bytes) {
  for (let at = 0; at < bytes.length;) {
    let [value, shift, byte] = [0n, 0n, 0];
    do {
      byte = bytes[at++];
      value |= BigInt(byte & 127) << shift;
      shift += 7n;
    } while (byte > 127);
    yield BigInt.asIntN(64, value);
  }
}

// The fields of a message: lists of numbers and bytes by id.
function fields(bytes) {
  const found = {};
  let at = 0;
  const next = () => {
    const start = at;
    while (bytes[at++] > 127);
    return Number([...varints(bytes.subarray(start, at))][0]);
  };
  while (at < bytes.length) {
    const key = next();
    let value = next();
    if (key % 8 === 2) {
      value = bytes.subarray(at, at + value);
      at += value.length;
    } else if (key % 8 !== 0) fail(`wire type ${key % 8}`);
    (found[key >> 3] ??= []).push(value);
  }
  return found;
}

const text = (list) => list?.map((bytes) => Buffer.from(bytes).toString()).join("");

// Cells are in one list per type, and their types in another.
function* cells(batch) {
  const all = (id) => (batch[id] ?? []).flatMap((bytes) => [...varints(bytes)]);
  const [kinds, integers] = [all(1), all(2)];
  const floats = (batch[3] ?? []).flatMap((bytes) => {
    const data = Buffer.from(bytes);
    return Array.from({ length: data.length / 8 }, (_, i) => data.readDoubleLE(8 * i));
  });
  const strings = (text(batch[5]) ?? "").split("\0");
  for (const kind of kinds) {
    if (kind === 1n) yield null;
    else if (kind === 2n) yield Number(integers.shift());
    else if (kind === 3n) yield floats.shift();
    else if (kind === 4n) yield strings.shift();
    else fail(`cell type ${kind}`);
  }
}

// The engine reads its .wasm file by a synchronous request.
class XMLHttpRequest {
  open(_, name) {
    this.name = name;
  }
  send() {
    this.response = new Uint8Array(fs.readFileSync(path.join(directory, path.basename(this.name)))).buffer;
  }
}
const scope = vm.createContext({
  console: { log() {}, warn() {}, error() {} },
  URL, TextDecoder, XMLHttpRequest, crypto, performance, setTimeout,
  location: { href: "file:///" },
  WorkerGlobalScope: Object,
});
scope.self = scope;
vm.runInContext(fs.readFileSync(path.join(directory, "engine_bundle.js"), "utf8"), scope);

let [open, columns, values] = [0, 0, []];
function reply(message) {
  if (message[5]) fail(text(message[5]));
  for (const id of [APPEND_RESULT, FINALIZE_RESULT]) {
    for (const result of message[id] ?? []) {
      const error = fields(result)[id === APPEND_RESULT ? 2 : 1];
      if (error) fail(text(error));
    }
  }
  for (const bytes of message[QUERY_RESULT] ?? []) {
    const result = fields(bytes);
    if (result[2]) fail(`${queries[open]}: ${text(result[2])}`);
    columns = result[1]?.length ?? columns;
    const batches = (result[3] ?? []).map(fields);
    for (const batch of batches) values.push(...cells(batch));
    if (batches.some((batch) => batch[6]?.[0])) {
      const row = (_, i) => values.slice(i * columns, (i + 1) * columns);
      console.log(JSON.stringify(columns ? Array.from({ length: values.length / columns }, row) : []));
      [open, columns, values] = [open + 1, 0, []];
      if (open === queries.length) process.exit(0);
    }
  }
}

// The engine and its arrays are of another realm than this script.
const port = { postMessage: (bytes) => (fields(bytes)[1] ?? []).forEach((message) => reply(fields(message))) };
const Bytes = vm.runInContext("Uint8Array", scope);
let sequence = 0;
const call = (request, ...args) => {
  const message = Buffer.concat([number(1, sequence++), number(2, request), ...args]);
  port.onmessage({ data: Bytes.from(field(1, message)) });
};
scope.onmessage({ data: port });
// After the engine's own start.
setTimeout(() => {
  const data = fs.readFileSync(trace);
  for (let at = 0; at < data.length; at += 1 << 20) call(APPEND, field(APPEND_DATA, data.subarray(at, at + (1 << 20))));
  call(FINALIZE);
  queries.forEach((query) => call(QUERY, field(QUERY_ARGS, field(1, Buffer.from(query)))));
});
