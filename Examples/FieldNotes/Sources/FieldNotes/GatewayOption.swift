import ArgumentParser
import Foundation

struct GatewayOption: ParsableArguments {
    @Option(help: "URL of the gateway, without /v1.")
    var gateway = "http://127.0.0.1:8080"

    func validate() throws { _ = try url }

    var url: URL {
        get throws {
            guard let url = URL(string: gateway), ["http", "https"].contains(url.scheme) else {
                throw ValidationError("'\(gateway)' is not the URL of a gateway: try http://127.0.0.1:8080")
            }
            return url
        }
    }
}
