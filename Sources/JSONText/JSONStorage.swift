internal import CSimdJSON

/// A text and its nodes.
///
/// Unchecked because of the pointers: this object alone owns their memory, which the parser wrote before the object
/// existed, nothing writes afterwards, and `deinit` frees.
final class JSONStorage: @unchecked Sendable {
    let bytes: [UInt8]
    let nodes: UnsafePointer<csj_node>
    let defects: UnsafeBufferPointer<csj_defect>
    private let ownedNodes: UnsafeMutablePointer<csj_node>
    private let ownedDefects: UnsafeMutablePointer<csj_defect>?

    init(parsing bytes: [UInt8], limits: JSONLimits) throws(JSONParseError) {
        let result = bytes.withUnsafeBufferPointer { text in
            csj_parse(text.baseAddress, text.count, csj_limits(limits))
        }
        guard result.error == CSJ_OK.rawValue, let nodes = result.nodes else {
            throw JSONParseError(kind: .init(rawValue: result.error) ?? .outOfMemory, offset: Int(result.error_offset))
        }
        self.bytes = bytes
        self.nodes = UnsafePointer(nodes)
        self.defects = UnsafeBufferPointer(start: result.defects, count: Int(result.defect_count))
        self.ownedNodes = nodes
        self.ownedDefects = result.defects
    }

    deinit {
        csj_free(ownedNodes, ownedDefects)
    }
}

extension csj_limits {
    fileprivate init(_ limits: JSONLimits) {
        self.init(
            bytes: UInt32(clamping: limits.maximumBytes),
            depth: UInt32(clamping: limits.maximumDepth),
            nodes: UInt32(clamping: limits.maximumNodes)
        )
    }
}
