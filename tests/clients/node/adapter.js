// The adapter of kafkajs: runs it by commands, a JSON object a line; ../adapter.rs says which.
//
//     node adapter.js BOOTSTRAP
'use strict'

const readline = require('readline')
const zlib = require('zlib')
const { CompressionTypes, CompressionCodecs, ConfigResourceTypes, Kafka, logLevel } = require('kafkajs')
const SnappyCodec = require('kafkajs-snappy')
const lz4 = require('lz4js')
const zstd = require('@bokuweb/zstd-wasm')

CompressionCodecs[CompressionTypes.Snappy] = SnappyCodec
CompressionCodecs[CompressionTypes.LZ4] = () => ({
  compress: async (encoder) => Buffer.from(lz4.compress(encoder.buffer)),
  decompress: async (buffer) => Buffer.from(lz4.decompress(buffer)),
})
CompressionCodecs[CompressionTypes.ZSTD] = () => ({
  compress: async (encoder) => Buffer.from(zstd.compress(encoder.buffer, 3)),
  decompress: async (buffer) => Buffer.from(zstd.decompress(buffer)),
})
const CODECS = { none: 'None', gzip: 'GZIP', snappy: 'Snappy', lz4: 'LZ4', zstd: 'ZSTD' }
const ACKS = { 0: 0, 1: 1, all: -1 }
const PATIENCE = 240_000

class Cannot extends Error {}

const kafka = new Kafka({
  clientId: 'kafkajs',
  brokers: [process.argv[2]],
  logLevel: logLevel.ERROR,
  connectionTimeout: PATIENCE,
  // A request is not sent again while its answer may still come.
  requestTimeout: PATIENCE,
})
const readers = new Map()
const members = new Map()
let admin
let groups = 0

async function administrator() {
  if (!admin) {
    admin = kafka.admin()
    await admin.connect()
  }
  return admin
}

function crc32(text) {
  // Node 20 has no CRC-32 of its own; gzip's trailer carries one.
  const packed = zlib.gzipSync(Buffer.from(text), { level: 0 })
  return packed.readUInt32LE(packed.length - 8)
}

async function until(what, condition, patience = PATIENCE) {
  const deadline = Date.now() + patience
  while (!condition()) {
    if (Date.now() > deadline) throw new Error(`waited for ${what}`)
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
}

// kafkajs reads in groups only, so a reader is the one member of a group of its own that seeks where it is told.
async function startReader(topic, options, onRecord, seekTo) {
  const groupId = `reader-${process.pid}-${groups++}-${topic}`
  const consumer = kafka.consumer({ groupId, maxWaitTimeInMs: 200, sessionTimeout: PATIENCE })
  const failed = []
  consumer.on(consumer.events.CRASH, (event) => failed.push(event.payload.error))
  await consumer.connect()
  await consumer.subscribe({ topic, fromBeginning: options.fromBeginning })
  const joined = new Promise((resolve) => consumer.on(consumer.events.GROUP_JOIN, resolve))
  await consumer.run({
    autoCommit: false,
    eachMessage: async ({ partition, message }) => onRecord(partition, message),
  })
  if (seekTo) consumer.seek(seekTo)
  await joined
  return { consumer, failed }
}

const commands = {
  async create({ topic, partitions, config }) {
    const configEntries = Object.entries(config).map(([name, value]) => ({ name, value }))
    const topics = [{ topic, numPartitions: partitions, replicationFactor: 1, configEntries }]
    const created = await (await administrator()).createTopics({ topics })
    if (!created) throw new Error(`TOPIC_ALREADY_EXISTS: ${topic}`)
  },

  async partitions({ topic }) {
    const { topics } = await (await administrator()).fetchTopicMetadata({ topics: [topic] })
    return { count: topics[0].partitions.length }
  },

  async produce({ topic, partition, values, codec, acks, idempotent, timestamp }) {
    const producer = kafka.producer(idempotent ? { idempotent, maxInFlightRequests: 1 } : { retry: { retries: 2 } })
    await producer.connect()
    try {
      const messages = values.map((value, i) => ({
        value,
        partition,
        ...(timestamp === undefined ? {} : { timestamp: String(timestamp + i) }),
      }))
      const compression = CompressionTypes[CODECS[codec]]
      const [result] = await producer.send({ topic, acks: ACKS[acks], compression, messages })
      return { first: acks === '0' ? -1 : Number(result.baseOffset) }
    } finally {
      await producer.disconnect()
    }
  },

  async open({ id, topic, partition, from, reset }) {
    const ends = await (await administrator()).fetchTopicOffsets(topic)
    const end = ends.find((each) => each.partition === partition)
    let offset = from
    if (from === 'beginning') offset = end.low
    if (from === 'end') offset = end.high
    if (from.timestamp !== undefined) {
      const found = await (await administrator()).fetchTopicOffsetsByTimestamp(topic, from.timestamp)
      offset = found.find((each) => each.partition === partition).offset
    }
    if (reset === 'none' && Number(offset) < Number(end.low)) {
      throw new Cannot('always resets to one end')
    }
    const records = []
    const reader = await startReader(
      topic,
      { fromBeginning: reset !== 'latest' },
      (_, message) => records.push([Number(message.offset), message.value.toString()]),
      { topic, partition, offset: String(offset) }
    )
    readers.set(id, { ...reader, records })
  },

  async take({ id, count }) {
    const { records, failed } = readers.get(id)
    await until(`${count} records`, () => records.length >= count || failed.length > 0)
    if (failed.length > 0) throw failed[0]
    return { records: records.splice(0, count) }
  },

  async poll({ id }) {
    const { records } = readers.get(id)
    await until('a record', () => records.length > 0, 500).catch(() => {})
    return { records: records.splice(0, 1) }
  },

  async close({ id }) {
    await readers.get(id).consumer.disconnect()
    readers.delete(id)
  },

  async digest({ topic, count }) {
    let seen = 0
    let sum = 0n
    const onRecord = (partition, message) => {
      sum += BigInt(crc32(`${partition}:${message.offset}:${message.value}`))
      seen++
    }
    const { consumer } = await startReader(topic, { fromBeginning: true }, onRecord)
    await until(`${count} records`, () => seen >= count).catch(() => {})
    await consumer.disconnect()
    return { count: seen, sum: Number(sum) }
  },

  async join({ id, group, topic, instance, protocol }) {
    if (protocol !== 'classic') throw new Cannot('no consumer-group protocol')
    if (instance) throw new Cannot('no static membership')
    const settings = { groupId: group, sessionTimeout: PATIENCE, heartbeatInterval: 500, maxWaitTimeInMs: 200 }
    const consumer = kafka.consumer({ ...settings, rebalanceTimeout: PATIENCE })
    const state = { partitions: [], first: {}, next: {}, count: 0, rebalances: 0 }
    consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
      state.partitions = payload.memberAssignment[topic] || []
      state.rebalances++
    })
    consumer.on(consumer.events.REBALANCING, () => {
      state.partitions = []
    })
    await consumer.connect()
    await consumer.subscribe({ topic, fromBeginning: true })
    await consumer.run({
      autoCommit: false,
      eachMessage: async ({ partition, message }) => {
        const offset = Number(message.offset)
        if (!(partition in state.first)) state.first[partition] = offset
        state.next[partition] = offset + 1
        state.count++
      },
    })
    members.set(id, { consumer, state, topic })
  },

  async member({ id }) {
    return members.get(id).state
  },

  async commit({ id }) {
    const { consumer, state, topic } = members.get(id)
    const own = state.partitions.filter((partition) => partition in state.next)
    await consumer.commitOffsets(
      own.map((partition) => ({ topic, partition, offset: String(state.next[partition]) }))
    )
  },

  async leave({ id }) {
    await members.get(id).consumer.disconnect()
    members.delete(id)
  },

  async committed({ group, topic, partition }) {
    const [found] = await (await administrator()).fetchOffsets({ groupId: group, topics: [topic] })
    return { offset: Number(found.partitions.find((each) => each.partition === partition).offset) }
  },

  async describe({ topic, key }) {
    const resources = [{ type: ConfigResourceTypes.TOPIC, name: topic, configNames: [key] }]
    const reply = await (await administrator()).describeConfigs({ includeSynonyms: false, resources })
    return { value: reply.resources[0].configEntries[0].configValue }
  },

  async alter({ topic, key, value }) {
    const resources = [{ type: ConfigResourceTypes.TOPIC, name: topic, configEntries: [{ name: key, value }] }]
    await (await administrator()).alterConfigs({ validateOnly: false, resources })
  },

  async 'delete-records'({ topic, partition, before }) {
    const partitions = [{ partition, offset: String(before) }]
    // It knows the leader only of topics that it has asked about before.
    await (await administrator()).fetchTopicOffsets(topic)
    await (await administrator()).deleteTopicRecords({ topic, partitions })
  },
}

async function main() {
  await zstd.init()
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const command = JSON.parse(line)
    let reply
    try {
      reply = (await commands[command.do](command)) || {}
    } catch (error) {
      const parts = (error.partitions || []).map((part) => String(part.error && part.error.message))
      const reason = [`${error.name}: ${error.message}`, ...parts].join('; ')
      reply = error instanceof Cannot ? { cannot: error.message } : { error: reason }
    }
    console.log(JSON.stringify(reply))
  }
  process.exit(0)
}

main()
