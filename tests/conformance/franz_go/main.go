// franz-go for the conformance tests: one JSON object on standard output for each command.
//
//	franz_go produce BOOTSTRAP TOPIC CODEC COUNT             idempotent, values "CODEC 0" to "CODEC COUNT-1", a header each
//	franz_go consume BOOTSTRAP TOPIC GROUP BALANCER COUNT    two members that commit, until they have so many records
//	franz_go admin BOOTSTRAP TOPIC GROUP                     what the admin client says of both, then delete them
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

var codecs = map[string]kgo.CompressionCodec{
	"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
	"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
}

var balancers = map[string]kgo.GroupBalancer{
	"range": kgo.RangeBalancer(), "roundrobin": kgo.RoundRobinBalancer(), "sticky": kgo.StickyBalancer(),
	"cooperative-sticky": kgo.CooperativeStickyBalancer(),
}

type said map[string]any

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func client(bootstrap string, options ...kgo.Opt) *kgo.Client {
	made, err := kgo.NewClient(append(options, kgo.SeedBrokers(strings.Split(bootstrap, ",")...))...)
	check(err)
	return made
}

func produce(ctx context.Context, bootstrap, topic, codec string, count int) said {
	producer := client(bootstrap, kgo.ProducerBatchCompression(codecs[codec]), kgo.DefaultProduceTopic(topic))
	defer producer.Close()
	records := make([]*kgo.Record, count)
	for i := range records {
		value := fmt.Sprintf("%s %d", codec, i)
		header := kgo.RecordHeader{Key: "codec", Value: []byte(codec)}
		records[i] = &kgo.Record{Key: []byte(value), Value: []byte(value), Headers: []kgo.RecordHeader{header}}
	}
	check(producer.ProduceSync(ctx, records...).FirstErr())
	return said{"produced": count}
}

func consume(ctx context.Context, bootstrap, topic, group, balancer string, count int) said {
	var lock sync.Mutex
	var done sync.WaitGroup
	values, headers := map[string]bool{}, 0
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	for range 2 {
		member := client(bootstrap, kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic),
			kgo.Balancers(balancers[balancer]), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
			kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.DisableAutoCommit(),
			kgo.OnPartitionsRevoked(func(ctx context.Context, member *kgo.Client, _ map[string][]int32) {
				check(member.CommitUncommittedOffsets(ctx)) // or whoever gets them reads them again
			}))
		done.Add(1)
		go func() {
			defer done.Done()
			defer member.Close()
			for ctx.Err() == nil {
				fetches := member.PollFetches(ctx)
				lock.Lock()
				fetches.EachRecord(func(record *kgo.Record) {
					if !values[string(record.Value)] {
						headers += len(record.Headers)
					}
					values[string(record.Value)] = true
				})
				if len(values) >= count {
					stop()
				}
				lock.Unlock()
			}
			check(member.CommitUncommittedOffsets(context.Background()))
		}()
	}
	done.Wait()
	return said{"values": slices.Sorted(maps.Keys(values)), "headers": headers}
}

func admin(ctx context.Context, bootstrap, topic, group string) said {
	admin := kadm.NewClient(client(bootstrap))
	defer admin.Close()
	found := said{}
	topics, err := admin.ListTopics(ctx, topic)
	check(err)
	found["partitions"] = len(topics[topic].Partitions)
	_, err = admin.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Name: "retention.ms", Value: kadm.StringPtr("70000")}}, topic)
	check(err)
	configs, err := admin.DescribeTopicConfigs(ctx, topic)
	check(err)
	for _, config := range configs[0].Configs {
		if config.Key == "retention.ms" {
			found["retention.ms"] = config.MaybeValue()
		}
	}
	ends, err := admin.ListEndOffsets(ctx, topic)
	check(err)
	end := int64(0)
	ends.Each(func(listed kadm.ListedOffset) { end += listed.Offset })
	found["end"] = end
	lags, err := admin.Lag(ctx, group)
	check(err)
	found["lag"], found["state"] = lags[group].Lag.Total(), lags[group].State
	unknown, err := admin.FetchOffsets(ctx, group+"-nobody")
	check(err)
	found["unknown"] = len(unknown)
	_, err = admin.CreatePartitions(ctx, 2, topic)
	check(err)
	grown, err := admin.ListTopics(ctx, topic)
	check(err)
	found["grown"] = len(grown[topic].Partitions)
	below := kadm.Offsets{}
	below.Add(kadm.Offset{Topic: topic, Partition: 0, At: 1})
	deleted, err := admin.DeleteRecords(ctx, below)
	check(err)
	deleted.Each(func(each kadm.DeleteRecordsResponse) { found["start"] = each.LowWatermark })
	groups, err := admin.DeleteGroups(ctx, group)
	check(err)
	check(groups[group].Err)
	gone, err := admin.DeleteTopics(ctx, topic)
	check(err)
	check(gone[topic].Err)
	return found
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	a := os.Args[1:]
	number := func(text string) int {
		count, err := strconv.Atoi(text)
		check(err)
		return count
	}
	var found said
	switch a[0] {
	case "produce":
		found = produce(ctx, a[1], a[2], a[3], number(a[4]))
	case "consume":
		found = consume(ctx, a[1], a[2], a[3], a[4], number(a[5]))
	case "admin":
		found = admin(ctx, a[1], a[2], a[3])
	default:
		check(fmt.Errorf("no command %q", a[0]))
	}
	check(json.NewEncoder(os.Stdout).Encode(found))
}
