import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Scanner;
import org.apache.kafka.common.utils.Exit;

/**
 * Kafka's command-line tools, one after another in this JVM. A call is a line of standard input: class, standard
 * input of the tool, arguments, separated by tabs, with "\n" for the end of a line. The answer is a line with exit
 * status and the sizes of what the tool wrote to stdout and stderr, then these bytes.
 */
public class KafkaTools {
    static class Exited extends Error {
        Exited() {
            super(null, null, false, false);
        }
    }

    static Map<Thread, Thread> hooks; // of the JVM; some tools do half of their work there
    static Integer status; // of the first exit: a tool may catch what ends it, and exit again

    static void exit(int code, String message) {
        if (status == null) {
            if (message != null) {
                System.err.println(message);
            }
            end(code);
        }
        throw new Exited();
    }

    /** What else a tool may say, say of this exit, is not heard. */
    static void end(int code) {
        status = code;
        List<Thread> registered = List.copyOf(hooks.keySet());
        hooks.clear();
        registered.forEach(Thread::run);
        System.setOut(new PrintStream(OutputStream.nullOutputStream()));
        System.setErr(new PrintStream(OutputStream.nullOutputStream()));
    }

    static void call(String tool, String[] arguments) throws Exception {
        status = null;
        try {
            Class.forName(tool).getMethod("main", String[].class).invoke(null, (Object) arguments);
        } catch (InvocationTargetException error) {
            if (status == null) {
                error.getCause().printStackTrace();
                end(1);
            }
        }
        if (status == null) {
            end(0);
        }
    }

    @SuppressWarnings("unchecked")
    public static void main(String[] ignored) throws Exception {
        Field field = Class.forName("java.lang.ApplicationShutdownHooks").getDeclaredField("hooks");
        field.setAccessible(true);
        hooks = (Map<Thread, Thread>) field.get(null);
        hooks.clear();
        Exit.setExitProcedure(KafkaTools::exit);
        Exit.setHaltProcedure(KafkaTools::exit);
        PrintStream out = System.out;
        Scanner calls = new Scanner(System.in, StandardCharsets.UTF_8);
        while (calls.hasNextLine()) {
            String[] words = calls.nextLine().split("\t", -1);
            ByteArrayOutputStream written = new ByteArrayOutputStream();
            ByteArrayOutputStream complained = new ByteArrayOutputStream();
            System.setIn(new ByteArrayInputStream(words[1].replace("\\n", "\n").getBytes(StandardCharsets.UTF_8)));
            System.setOut(new PrintStream(written, true, StandardCharsets.UTF_8));
            System.setErr(new PrintStream(complained, true, StandardCharsets.UTF_8));
            call(words[0], Arrays.copyOfRange(words, 2, words.length));
            byte[] said = written.toByteArray();
            byte[] wrong = complained.toByteArray();
            out.println(status + " " + said.length + " " + wrong.length);
            out.write(said);
            out.write(wrong);
            out.flush();
        }
    }
}
