import HTTPTypes
import Metrics

/// The metrics of one route, made once.
///
/// Labels are bounded: the route's template, its method and the class of the status.
package struct RouteMeters: Sendable {
    let route: String
    private let succeeded: Counter
    private let redirected: Counter
    private let refused: Counter
    private let failed: Counter
    private let duration: Metrics.Timer

    init(route: String, method: String) {
        func counter(_ status: String) -> Counter {
            Counter(
                label: HTTPMetrics.requests,
                dimensions: [("route", route), ("method", method), ("status", status)]
            )
        }
        self.route = route
        succeeded = counter("2xx")
        redirected = counter("3xx")
        refused = counter("4xx")
        failed = counter("5xx")
        duration = Metrics.Timer(label: HTTPMetrics.duration, dimensions: [("route", route), ("method", method)])
    }

    func record(_ status: HTTPResponse.Status, nanoseconds: Int64) {
        switch status.code {
        case ..<300: succeeded.increment()
        case ..<400: redirected.increment()
        case ..<500: refused.increment()
        default: failed.increment()
        }
        duration.recordNanoseconds(nanoseconds)
    }
}
