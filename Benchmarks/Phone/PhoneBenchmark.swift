import Foundation

/// The costs of the phone's library; see ``Options/help``.
@main
enum PhoneBenchmark {
    static func main() {
        let arguments = Array(CommandLine.arguments.dropFirst())
        if arguments.contains("--help") || arguments.contains("-h") { return print(Options.help) }
        Task.detached { exit(await status(arguments)) }
        // the main thread acts as in an app: it runs the tasks of its queue, kept alive by a timer
        RunLoop.main.add(Timer(timeInterval: 3_600, repeats: true) { _ in }, forMode: .default)
        RunLoop.main.run()
    }

    /// Prints the figures.
    private static func status(_ arguments: [String]) async -> Int32 {
        do {
            let options = try Options(arguments, ProcessInfo.processInfo.environment)
            print(try await figures(options).json)
            return 0
        } catch {
            FileHandle.standardError.write(Data("PhoneBenchmark: \(error)\n".utf8))
            return error is Options.Failure ? 2 : 1
        }
    }

    private static func figures(_ options: Options) async throws -> Figures {
        switch options.figure {
        case .writes: try await Writes(options).figures()
        case .edits: try await PullUnderEdits(options).figures()
        case .main: try await MainThread(options).figures()
        case .firstPull: try await FirstPull(options).figures()
        }
    }
}
