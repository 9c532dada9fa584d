import Foundation
import SluiceClient

/// The terminal: typed commands, and others' changes as they arrive.
struct Shell {
    let phone: Phone

    private enum Event {
        case line(String?)
        case notebook(Notebook)
        case status(SyncStatus)
    }

    func run() async throws {
        phone.sluice.resume()
        let commands = Commands(phone: phone)
        var notebook = try await phone.notebook()
        var prompt = Prompt(name: phone.name)
        prompt.say("Type help for a list of commands.", phone.sluice.currentStatus)
        for try await event in events() {
            switch event {
            case .line("quit"), .line(nil):
                phone.sluice.suspend()
                return
            case .line(let line?):
                prompt.isTyped()
                do {
                    prompt.say(try await commands.run(line), phone.sluice.currentStatus)
                } catch {
                    prompt.say("\(error)", phone.sluice.currentStatus)
                }
            case .notebook(let new):
                for change in new.changes(since: notebook) { prompt.say(change, phone.sluice.currentStatus) }
                notebook = new
            case .status(let status): prompt.show(status)
            }
        }
    }

    /// All events in one queue, so that the consumer handles them one at a time.
    private func events() -> AsyncThrowingStream<Event, any Error> {
        AsyncThrowingStream { continuation in
            let lines = Thread {
                while let line = readLine() { continuation.yield(.line(line)) }
                continuation.yield(.line(nil))
            }
            lines.start()
            let notebook = Task {
                do {
                    for try await notebook in phone.notebooks() { continuation.yield(.notebook(notebook)) }
                } catch {
                    continuation.finish(throwing: error)
                }
            }
            let status = Task { [sluice = phone.sluice] in
                for await status in sluice.status { continuation.yield(.status(status)) }
            }
            continuation.onTermination = { _ in
                notebook.cancel()
                status.cancel()
            }
        }
    }
}
