/// Histogram bounds to choose from. A histogram costs one series a bound, so few and well placed.
package enum MetricBuckets {
    /// Seconds, for waits on a network or a database: 1 ms to 10 s.
    package static let seconds: [Double] = [
        0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10,
    ]

    /// Seconds, for waits on a network that may be unavailable: 10 ms to a day.
    package static let upToADay: [Double] = [
        0.01, 0.05, 0.1, 0.5, 1, 5, 15, 60, 300, 900, 3_600, 14_400, 43_200, 86_400,
    ]

    /// Sizes of groups: 1 to 2,000.
    package static let counts: [Double] = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000]

    /// Sizes in bytes: 256 to 4 Mi.
    package static let bytes: [Double] = [256, 1_024, 4_096, 16_384, 65_536, 262_144, 1_048_576, 4_194_304]
}
