import Foundation

/// What a fuzzer does with libFuzzer's inputs. `FUZZ_TARGET` selects it by name.
///
/// A target ends the process if an answer is wrong, not only if the code under test does.
enum FuzzTarget: String, CaseIterable {
    case json, merge, rewrite, push, bodies, ingest, mapping, replication, endpoint, path, texts, webhooks

    static let chosen: FuzzTarget = {
        let name = ProcessInfo.processInfo.environment["FUZZ_TARGET"] ?? ""
        guard let target = FuzzTarget(rawValue: name) else {
            let known = allCases.map(\.rawValue).joined(separator: ", ")
            print("FUZZ_TARGET is '\(name)'; it can be one of: \(known)")
            exit(64)
        }
        return target
    }()

    func run(_ bytes: [UInt8]) {
        switch self {
        case .json: JSONTarget.run(bytes)
        case .merge: MergeTarget.run(bytes)
        case .rewrite: RewriteTarget.run(bytes)
        case .push: PushTarget.run(bytes)
        case .bodies: BodiesTarget.run(bytes)
        case .ingest: IngestTarget.run(bytes)
        case .mapping: MappingTarget.run(bytes)
        case .replication: ReplicationTarget.run(bytes)
        case .endpoint: EndpointTarget.run(bytes)
        case .path: PathTarget.run(bytes)
        case .texts: TextsTarget.run(bytes)
        case .webhooks: WebhooksTarget.run(bytes)
        }
    }
}

/// The function that libFuzzer calls with each input.
@_cdecl("LLVMFuzzerTestOneInput")
package func fuzzOneInput(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
    FuzzTarget.chosen.run(Array(UnsafeBufferPointer(start: start, count: count)))
    return 0
}

/// Ends the process unless `condition` holds, so that libFuzzer stores the input.
func expect(_ condition: Bool, _ complaint: @autoclosure () -> String, line: Int = #line, file: String = #fileID) {
    guard !condition else { return }
    print("WRONG ANSWER at \(file):\(line): \(complaint())")
    fflush(nil)
    abort()
}

/// The bytes before and after the first zero byte; nil without one.
func halves(_ bytes: [UInt8]) -> (first: [UInt8], second: [UInt8])? {
    guard let mark = bytes.firstIndex(of: 0) else { return nil }
    return (Array(bytes[..<mark]), Array(bytes[(mark + 1)...]))
}

/// For failure messages.
func show(_ bytes: some Sequence<UInt8>) -> String { String(decoding: Array(bytes), as: UTF8.self).debugDescription }
