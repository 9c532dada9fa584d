import FoundationEssentials

/// A value that a ``JSONWriter`` can write.
public protocol JSONWritable {
    func write(to writer: inout JSONWriter)
}
