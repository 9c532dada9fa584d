import ArgumentParser
import Configuration
import Subprocess
import ServiceLifecycle
import Hummingbird
import JWTKit
@main struct Main { static func main() {} }
