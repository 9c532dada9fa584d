import JSONText

func parse(_ text: String, limits: JSONLimits = .init()) throws -> JSONTree {
    try JSONTree(parsing: Array(text.utf8), limits: limits)
}

func fault(_ bytes: some Sequence<UInt8>, limits: JSONLimits = .init()) -> JSONParseError? {
    do {
        _ = try JSONTree(parsing: Array(bytes), limits: limits)
        return nil
    } catch {
        return error
    }
}

func fault(_ text: String, limits: JSONLimits = .init()) -> JSONParseError? {
    fault(text.utf8, limits: limits)
}

func text(_ bytes: some Sequence<UInt8>) -> String {
    String(decoding: Array(bytes), as: UTF8.self)
}

/// SplitMix64: the same numbers for the same seed, on every machine.
struct SeededGenerator: RandomNumberGenerator {
    private var state: UInt64

    init(seed: UInt64) { state = seed }

    mutating func next() -> UInt64 {
        state &+= 0x9e37_79b9_7f4a_7c15
        var word = state
        word = (word ^ (word >> 30)) &* 0xbf58_476d_1ce4_e5b9
        word = (word ^ (word >> 27)) &* 0x94d0_49bb_1331_11eb
        return word ^ (word >> 31)
    }
}
