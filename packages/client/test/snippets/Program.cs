using System;
using System.IO;

foreach (var line in File.ReadLines(args[0]))
{
    var parts = line.Split('\t');
    Console.WriteLine(Keyhook.IsFromKeyhook(File.ReadAllBytes(parts[0]), parts[1], parts[2..]));
}
