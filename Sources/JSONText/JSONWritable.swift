import FoundationEssentials

/// What a ``JSONWriter`` writes as one value.
public protocol JSONWritable {
    func write(to writer: inout JSONWriter)
}
