// KafkaJS for the conformance tests: one JSON object a line on standard output, until its input ends.
//
//   node client.js produce BOOTSTRAP TOPIC COUNT      values "0" … "COUNT-1", each with itself as key
//   node client.js member BOOTSTRAP TOPIC GROUP       a group member that commits what it has printed
//   node client.js groups BOOTSTRAP GROUP             what the admin client says of a group, then delete it
const { Kafka, logLevel } = require("kafkajs");

const [what, bootstrap, ...rest] = process.argv.slice(2);
const retry = { initialRetryTime: 100, maxRetryTime: 500, retries: 50 };
const kafka = new Kafka({ clientId: "kafkajs", brokers: bootstrap.split(","), logLevel: logLevel.NOTHING, retry });
const say = (object) => process.stdout.write(JSON.stringify(object) + "\n");
const inputEnds = new Promise((resolve) => process.stdin.on("end", resolve).resume());

async function produce(topic, count) {
  const producer = kafka.producer({ idempotent: true });
  await producer.connect();
  const messages = Array.from({ length: Number(count) }, (_, number) => ({ key: `${number}`, value: `${number}` }));
  await producer.send({ topic, acks: -1, messages });
  await producer.disconnect();
  say({ produced: Number(count) });
}

async function member(topic, groupId) {
  const consumer = kafka.consumer({ groupId, sessionTimeout: 10000, heartbeatInterval: 500, rebalanceTimeout: 10000 });
  consumer.on(consumer.events.GROUP_JOIN, (event) => say({ assigned: event.payload.memberAssignment[topic] || [] }));
  await consumer.connect();
  await consumer.subscribe({ topics: [topic], fromBeginning: true });
  await consumer.run({
    autoCommitThreshold: 1,
    eachMessage: async ({ partition, message }) =>
      say({ partition, offset: Number(message.offset), value: message.value.toString() }),
  });
  await inputEnds;
  await consumer.disconnect();
}

async function groups(groupId) {
  const admin = kafka.admin();
  await admin.connect();
  const listed = (await admin.listGroups()).groups.map((group) => group.groupId);
  const described = (await admin.describeGroups([groupId])).groups[0];
  const offsets = await admin.fetchOffsets({ groupId });
  say({ listed, state: described.state, protocolType: described.protocolType, offsets });
  await admin.deleteGroups([groupId]);
  say({ left: (await admin.listGroups()).groups.map((group) => group.groupId) });
  await admin.disconnect();
}

({ produce, member, groups })[what](...rest).then(
  () => process.exit(0),
  (error) => {
    say({ failed: String(error) });
    process.exit(1);
  },
);
