import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;

public class Main {
    public static void main(String[] args) throws Exception {
        for (String line : Files.readAllLines(Path.of(args[0]))) {
            String[] parts = line.split("\t");
            System.out.println(Keyhook.isFromKeyhook(Files.readAllBytes(Path.of(parts[0])), parts[1], Arrays.copyOfRange(parts, 2, parts.length)));
        }
    }
}
