/// A tree's text and nodes, passed during a call to code that visits many of them.
struct JSONSource {
    let nodes: UnsafePointer<JSONNode>
    let bytes: UnsafeBufferPointer<UInt8>

    subscript(index: Int) -> JSONNode { nodes[index] }

    func text(_ range: Range<Int>) -> UnsafeBufferPointer<UInt8> {
        UnsafeBufferPointer(rebasing: bytes[range])
    }
}

extension JSONStorage {
    func withSource<Result>(_ body: (JSONSource) -> Result) -> Result {
        bytes.withUnsafeBufferPointer { body(JSONSource(nodes: nodes, bytes: $0)) }
    }
}
