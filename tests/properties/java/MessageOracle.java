import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Constructor;
import java.nio.ByteBuffer;
import java.util.HexFormat;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.protocol.Readable;

/**
 * Reads a message with Kafka's own class and writes it again. One line in: class, version, the bytes in hex.
 * One line out: the bytes in hex, or a word that is not hex and says what went wrong.
 */
public final class MessageOracle {
    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ", -1);
            System.out.println(again(words[0], Short.parseShort(words[1]), HexFormat.of().parseHex(words[2])));
        }
    }

    private static String again(String className, short version, byte[] bytes) {
        try {
            Constructor<?> constructor = Class.forName(className).getConstructor(Readable.class, short.class);
            ByteBuffer input = ByteBuffer.wrap(bytes);
            Message message = (Message) constructor.newInstance(new ByteBufferAccessor(input), version);
            if (input.hasRemaining()) {
                return "left: " + input.remaining();
            }
            ByteBuffer output = MessageUtil.toByteBufferAccessor(message, version).buffer();
            byte[] written = new byte[output.remaining()];
            output.get(written);
            return HexFormat.of().formatHex(written);
        } catch (ReflectiveOperationException | RuntimeException error) {
            Throwable cause = error.getCause() == null ? error : error.getCause();
            return "failed: " + cause.toString().replace('\n', ' ');
        }
    }
}
