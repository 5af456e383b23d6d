import java.io.File;
import java.util.TreeMap;
import org.apache.kafka.metadata.properties.MetaProperties;
import org.apache.kafka.metadata.properties.PropertiesUtils;
import org.apache.kafka.storage.internals.checkpoint.LeaderEpochCheckpointFile;
import org.apache.kafka.storage.internals.checkpoint.OffsetCheckpointFile;
import org.apache.kafka.storage.internals.checkpoint.PartitionMetadataFile;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;

/** Prints what Kafka finds in the small files of a log directory: `ReadDirectory <directory> <partition directory>`. */
public class ReadDirectory {
    public static void main(String[] args) throws Exception {
        File directory = new File(args[0]);
        LogDirFailureChannel failures = new LogDirFailureChannel(1);
        System.out.println(new MetaProperties.Builder(
            PropertiesUtils.readPropertiesFile(new File(directory, "meta.properties").getPath())).build());
        for (String name : new String[] {"recovery-point", "replication", "log-start", "cleaner"}) {
            OffsetCheckpointFile file = new OffsetCheckpointFile(new File(directory, name + "-offset-checkpoint"), failures);
            System.out.println(name + " " + new TreeMap<>(
                file.read().entrySet().stream().collect(
                    java.util.stream.Collectors.toMap(e -> e.getKey().toString(), e -> e.getValue()))));
        }
        File partition = new File(args[1]);
        System.out.println(new LeaderEpochCheckpointFile(
            LeaderEpochCheckpointFile.newFile(partition), failures).read());
        System.out.println(new PartitionMetadataFile(PartitionMetadataFile.newFile(partition), failures).read().topicId());
    }
}
