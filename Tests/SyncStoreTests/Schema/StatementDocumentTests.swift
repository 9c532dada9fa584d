import Foundation
import Testing

/// `docs/sql` shows all statements, so that a change of a statement can be reviewed as SQL.
@Suite struct StatementDocumentTests {
    private static let root = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../../..")

    /// With `SLUICE_WRITE_SQL`, which `make sql` sets, the test writes the files.
    @Test func `the documents have the text of every statement`() throws {
        let folder = Self.root.appending(path: "docs/sql")
        let purposes = try StatementFlow.purposes(in: Self.root.appending(path: "Sources"))
        let manager = FileManager.default
        if ProcessInfo.processInfo.environment["SLUICE_WRITE_SQL"] != nil {
            try? manager.removeItem(at: folder)
            try manager.createDirectory(at: folder, withIntermediateDirectories: true)
            for flow in StatementFlow.all {
                let file = folder.appending(path: flow.name + ".sql")
                try Data(flow.text(purposes).utf8).write(to: file)
            }
        }
        let files = try manager.contentsOfDirectory(atPath: folder.path).sorted()
        #expect(files == StatementFlow.all.map { $0.name + ".sql" }.sorted())
        for flow in StatementFlow.all {
            let text = try? String(contentsOf: folder.appending(path: flow.name + ".sql"), encoding: .utf8)
            #expect(text == flow.text(purposes), "run 'make sql': docs/sql/\(flow.name).sql is out of date")
        }
    }
}
