mod verify;

fn main() {
    let cases = std::fs::read_to_string(std::env::args().nth(1).unwrap()).unwrap();
    for line in cases.lines() {
        let parts: Vec<&str> = line.split('\t').collect();
        let body = std::fs::read(parts[0]).unwrap();
        println!("{}", verify::is_from_keyhook(&body, parts[1], &parts[2..]));
    }
}
