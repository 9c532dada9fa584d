import JSONText
import SyncModel

/// Bodies of settling and administration: the first byte selects the kind. Every refusal contains a pointer.
enum BodiesTarget {
    static func run(_ bytes: [UInt8]) {
        guard let first = bytes.first else { return }
        let body = Array(bytes.dropFirst())
        let limits = IntakeLimits()
        do throws(Problem) {
            switch first % 6 {
            case 0: _ = try RetryRequest(body: body, limits: limits)
            case 1: _ = try DiscardRequest(body: body, limits: limits)
            case 2: _ = try ResolveRequest(body: body, limits: limits)
            case 3: try check(BulkRequest(body: body, limit: 65_536, for: .retry))
            case 4: try check(BulkRequest(body: body, limit: 65_536, for: .discard))
            default: settings(body)
            }
        } catch {
            expect([400, 413, 422].contains(error.code.status), "\(error)")
            if error.code == .validationFailed { expect(!error.errors.isEmpty, "refused without a reason") }
            for detail in error.errors {
                expect(JSONPointer.isValid(detail.pointer) || detail.pointer.hasSuffix("…"), "no pointer: \(detail)")
            }
        }
    }

    private static func check(_ request: BulkRequest) {
        expect((request.ids?.count ?? 1) <= BulkRequest.maximumIDs, "too many ids")
        expect(!request.statuses.isEmpty, "no status")
    }

    /// An organization's settings without problems are stored and read unchanged.
    private static func settings(_ body: [UInt8]) {
        guard let tree = try? JSONTree(parsing: body) else { return }
        var report = MemberReport()
        let settings = OrganizationSettings(tree.root, at: "/settings", &report)
        guard report.count == 0 else { return }
        var writer = JSONWriter()
        settings.write(to: &writer)
        guard let stored = try? JSONTree(parsing: writer.bytes) else {
            return expect(false, "settings are stored as \(show(writer.bytes))")
        }
        let read = OrganizationSettings(stored.root, at: "", &report)
        expect(report.count == 0, "stored: \(show(writer.bytes))")
        expect(read == settings, "settings decode to different ones")
        expect(OrganizationSettings(stored: stored.root) == settings, "stored settings decode to different ones")
    }
}
