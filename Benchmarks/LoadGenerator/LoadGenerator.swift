import Glibc

/// Pushes to a gateway and measures it; see ``Options/help``.
@main
enum LoadGenerator {
    static func main() {
        let arguments = Array(CommandLine.arguments.dropFirst())
        if arguments.contains("--help") || arguments.contains("-h") { return print(Options.help) }
        signal(SIGPIPE, SIG_IGN)
        do {
            let secret = getenv("LOAD_GENERATOR_JWT_SECRET").map { String(cString: $0) }
            var load = try Load(Options(arguments, secret: secret))
            let (line, complaint, isUseful) = try load.run()
            print(line)
            if let complaint { complain("the first unexpected answer: \(complaint)") }
            exit(isUseful ? 0 : 1)
        } catch {
            complain("\(error)")
            exit(2)
        }
    }

    private static func complain(_ text: String) {
        let line = Array("LoadGenerator: \(text)\n".utf8)
        _ = write(2, line, line.count)
    }
}
